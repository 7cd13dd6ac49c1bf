// front/control/check_finite.hpp: check_finite: an error at the first NaN or infinity.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "../functions/indexing.hpp"
#include "../functions/reductions.hpp"
#include "host_call.hpp"

namespace sinter {

namespace detail {

/// The host function of check_finite; its message has the user's line.
template <std::size_t R>
struct finite_check {
  std::string label;
  location at;

  void operator()(const tensor<std::int64_t, 0>& index, const tensor<double, 0>& value,
                  const std::array<dim, R>& extents) const {
    const double x = value.item();
    if (x - x == 0) return;
    dims where(static_cast<int>(R));
    std::int64_t rest = index.item();
    for (std::size_t i = R; i-- > 0; rest /= extents[i].bits) where[static_cast<int>(i)] = rest % extents[i].bits;
    fail("check_finite",
         label + ", " + text::shape(to_dims(extents)) + ", is not finite: its first such element, at " +
             text::shape(where) + ", is " + (x != x ? "nan" : text::number(x)),
         at);
  }
};

}  // namespace detail

/// x, after a check that its elements are finite. Otherwise a user_error names the label, the first NaN or infinity, its
/// index and this line. Inside compile() each call checks, which costs a reduction and a wait. In loops and branches it
/// checks as often as they run. Not allowed in vmap, like host_call. Floating dtypes only.
template <tensor_like X>
auto check_finite(const X& x, std::string label, location at = location::current()) {
  static_assert(is_float(dtype_of<typename X::value_type>),
                "sinter: [check_finite] takes a floating dtype; other numbers are finite");
  const auto y = detail::evaluate(x, at);
  const auto extents = y.shape();
  if constexpr (is_float(dtype_of<typename X::value_type>)) {
    const dim n = detail::product(extents);
    if (n != 0) {
      const auto flat = flatten(stop_gradient(y, at), at);
      const auto index = argmax(cast<std::int8_t>(bit_not(isfinite(flat, at), at), at), at);
      const tensor<double, 0> value = detail::evaluate(cast<double>(take(flat, index, axis<0>, at), at), at);
      const tensor<std::int64_t, 0> place = detail::evaluate(index, at);
      detail::host_call_of(detail::finite_check<static_cast<std::size_t>(X::rank)>{std::move(label), at}, at, place,
                           value, extents);
    }
  }
  return y;
}

}  // namespace sinter
