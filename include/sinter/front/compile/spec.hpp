// front/compile/spec.hpp: tensors that precompile() and export_library() expect: extents, and sizes that stay open.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <string>
#include <utility>

#include "call.hpp"
#include "dynamic.hpp"

namespace sinter {

/// The extent of an axis of a spec: a number, or a size that stays open between bounds. Axes with one name have one size.
/// `extent("n", 1, 512)`
class extent {
 public:
  constexpr extent() = default;
  template <std::integral N>
  extent(N n) : least_(static_cast<std::int64_t>(n)), most_(static_cast<std::int64_t>(n)) {}
  extent(dim n) : extent(static_cast<std::int64_t>(n)) {}
  /// user_error for an empty name, and for bounds without a value.
  extent(std::string name, std::int64_t least, std::int64_t most, location at = location::current())
      : name_(std::move(name)), least_(least), most_(most) {
    if (name_.empty() || least < 0 || most < least)
      fail("extent",
           "'" + name_ + "' from " + std::to_string(least) + " to " + std::to_string(most) +
               " is no size; give a name and bounds, extent(\"n\", 1, 512)",
           at);
  }

  bool is_open() const { return !name_.empty(); }
  const std::string& name() const { return name_; }
  std::int64_t least() const { return least_; }
  std::int64_t most() const { return most_; }
  /// The number; of an open size, one that stands for many.
  std::int64_t usual() const {
    return is_open() ? std::clamp<std::int64_t>(64, std::max<std::int64_t>(least_, 2), most_) : least_;
  }

 private:
  std::string name_;
  std::int64_t least_ = 0, most_ = 0;
};

/// A tensor that precompile() and export_library() expect: its extents and its device. `spec<tensor<float, 2>>{{64, 100}}`
template <any_tensor X>
struct spec {
  std::array<extent, static_cast<std::size_t>(X::rank)> extents{};
  device where = engine::default_device();
};

namespace detail {

template <class T>
inline constexpr bool is_spec = false;
template <class X>
inline constexpr bool is_spec<spec<X>> = true;
template <class T>
struct tensor_of_spec {
  using type = T;
};
template <class X>
struct tensor_of_spec<spec<X>> {
  using type = X;
};

/// A tensor with uninitialised elements.
template <class X>
X unfilled(const index_array<X::rank>& extents, device where, const char* op, location at) {
  using E = typename X::value_type;
  check_static<X::static_shape>(op, extents, at);
  const auto n = checked_numel(op, to_dims(extents), sizeof(E), at);
  engine::check_device(where, op, at);
  storage memory = engine::allocate(static_cast<std::size_t>(n) * sizeof(E), where);
  E* const first = static_cast<E*>(memory.data());
  return access::make<E, X::static_shape>(std::move(memory), first, extents, row_major_strides(extents));
}

/// The argument itself; for a spec, a tensor with uninitialised elements, whose open axes are marked.
template <bool Numbers, class T>
decltype(auto) expected(const T& x, location at) {
  if constexpr (is_spec<T>) {
    using X = typename tensor_of_spec<T>::type;
    index_array<X::rank> extents;
    for (std::size_t d = 0; d < extents.size(); ++d) extents[d] = dim(x.extents[d].usual());
    X out = unfilled<X>(extents, x.where, "precompile", at);
    for (std::size_t d = 0; d < extents.size(); ++d)
      if (const extent& e = x.extents[d]; e.is_open())
        mark_dynamic(out, static_cast<int>(d), {e.least(), e.most()}, at);
    return out;
  } else {
    return given<Numbers>(x);
  }
}

}  // namespace detail
}  // namespace sinter
