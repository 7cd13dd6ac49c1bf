// complex/factories.hpp: makes complex tensors of zeros, of one value, and from numbers of the host.
#pragma once

#include <cstddef>
#include <vector>

#include "functions.hpp"

namespace sinter {

namespace detail {

template <class Z, dims Shape>
auto complex_copy(const Z* data, std::size_t size, const index_array<Shape.rank>& extents, target where, location at) {
  using T = typename Z::value_type;
  std::vector<T> re(size), im(size);
  for (std::size_t i = 0; i < size; ++i) {
    re[i] = data[i].real();
    im[i] = data[i].imag();
  }
  return tensor<Z, Shape>(copy_from<T, Shape>(re.data(), size, extents, where, at),
                          copy_from<T, Shape>(im.data(), size, extents, where, at));
}

template <class Z, class... I>
auto complex_filled(const char* name, int value, extent_here first, I... rest) {
  using T = typename Z::value_type;
  constexpr dims shape = count_dims<I...>;
  const auto part = [&](int x) {
    return filled<T, shape>(name, static_cast<T>(x), extents_from(first, rest...), target_from(rest...), first.at,
                            true);
  };
  return tensor<Z, shape>(part(value), part(0));
}

}  // namespace detail

/// `zeros<complex64>(3, 4)`, `ones<complex64>(3, 4, device::cuda(0))`.
template <class Z, class... I>
requires(detail::is_std_complex<Z>&& detail::extents_then_device<I...>) auto zeros(detail::extent_here first,
                                                                                   I... rest) {
  return detail::complex_filled<Z>("zeros", 0, first, rest...);
}
/// Complex ones of these extents, on a device; see zeros.
template <class Z, class... I>
requires(detail::is_std_complex<Z>&& detail::extents_then_device<I...>) auto ones(detail::extent_here first,
                                                                                  I... rest) {
  return detail::complex_filled<Z>("ones", 1, first, rest...);
}

/// A copy of a contiguous range of the host in row-major order: `from_span(v, 3, 4)`, or `from_span(v)` of rank 1. user_error
/// when the sizes differ.
template <class Range, class... I>
requires(detail::is_std_complex<detail::range_element<Range>>&& detail::extents_then_device<I...>) auto from_span(
    const Range& range, detail::extent_here first, I... rest) {
  return detail::complex_copy<detail::range_element<Range>, detail::count_dims<I...>>(
      std::data(range), std::size(range), detail::extents_from(first, rest...), detail::target_from(rest...), first.at);
}
template <class Range>
requires detail::is_std_complex<detail::range_element<Range>>
auto from_span(const Range& range, detail::target where = {}, location at = location::current()) {
  return detail::complex_copy<detail::range_element<Range>, dims(1)>(
      std::data(range), std::size(range), {static_cast<std::int64_t>(std::size(range))}, where, at);
}

}  // namespace sinter
