// base/dims.hpp: a static shape; a structural type, so that it can be a template argument.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "extent.hpp"

namespace sinter {

namespace detail {
/// The length of an array for n elements; C++ has no arrays of length 0.
constexpr std::size_t bound(int n) { return n > 0 ? static_cast<std::size_t>(n) : 1; }
}  // namespace detail

/// An extent that is known only at run time.
inline constexpr std::int64_t dyn = -1;

/// The greatest number of axes of a tensor.
inline constexpr int max_rank = 12;

/// A rank and extents; `dims(2)` is rank 2 with both extents dynamic, `dims{dyn, 64}` fixes the second.
struct dims {
  int rank = 0;
  dim extent[max_rank] = {};

  constexpr dims() = default;
  // A template, because clang 14 would call it for dims{dyn}, whose only element is not an int.
  template <std::same_as<int> Rank>
  constexpr dims(Rank r) : rank(r) {
    for (int i = 0; i < r && i < max_rank; ++i) extent[i] = dyn;
  }
  constexpr dims(std::initializer_list<dim> extents) {
    for (auto e : extents) push(e);
  }

  constexpr void push(dim e) {
    if (rank < max_rank) extent[rank] = e;
    ++rank;
  }
  constexpr const dim& operator[](int i) const { return extent[i]; }
  constexpr dim& operator[](int i) { return extent[i]; }
  constexpr dim* begin() { return extent; }
  constexpr dim* end() { return extent + rank; }
  constexpr const dim* begin() const { return extent; }
  constexpr const dim* end() const { return extent + rank; }
  // Not defaulted: g++ 12 takes the comparison of an array of classes for a modification.
  constexpr bool operator==(const dims& other) const {
    if (rank != other.rank) return false;
    for (int i = 0; i < max_rank; ++i)
      if (extent[i] != other.extent[i]) return false;
    return true;
  }

  /// True when every extent is a number.
  constexpr bool known() const {
    for (auto e : *this)
      if (e == dyn) return false;
    return true;
  }
  /// The number of elements; `dyn` unless every extent is known.
  constexpr dim numel() const {
    dim n = 1;
    for (auto e : *this) {
      if (e == dyn) return dyn;
      n *= e;
    }
    return n;
  }
};

/// True when a tensor of shape `concrete` may have the static shape `pattern`.
constexpr bool fits(const dims& pattern, const dims& concrete) {
  if (pattern.rank != concrete.rank) return false;
  for (int i = 0; i < pattern.rank; ++i)
    if (pattern[i] != dyn && concrete[i] != dyn && pattern[i] != concrete[i]) return false;
  return true;
}

}  // namespace sinter

#if !defined(SINTER_COMPILED)
#include "define.hpp"
#endif
