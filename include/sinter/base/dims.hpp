// base/dims.hpp: a static shape; a structural value, so that it can be a template argument.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace sinter {

/// An extent known at run time only.
inline constexpr std::int64_t dyn = -1;

inline constexpr int max_rank = 8;

/// Rank and extents; `dims(2)` is rank 2 with both extents dynamic, `dims{dyn, 64}` fixes the second.
struct dims {
  int rank = 0;
  std::int64_t extent[max_rank] = {};

  constexpr dims() = default;
  constexpr dims(int r) : rank(r) {
    for (int i = 0; i < r && i < max_rank; ++i) extent[i] = dyn;
  }
  constexpr dims(std::initializer_list<std::int64_t> extents) {
    for (auto e : extents) push(e);
  }

  constexpr void push(std::int64_t e) {
    if (rank < max_rank) extent[rank] = e;
    ++rank;
  }
  constexpr std::int64_t operator[](int i) const { return extent[i]; }
  constexpr std::int64_t& operator[](int i) { return extent[i]; }
  constexpr const std::int64_t* begin() const { return extent; }
  constexpr const std::int64_t* end() const { return extent + rank; }
  constexpr bool operator==(const dims&) const = default;

  /// True when every extent is a number.
  constexpr bool known() const {
    for (auto e : *this)
      if (e == dyn) return false;
    return true;
  }
  /// Number of elements; `dyn` unless every extent is known.
  constexpr std::int64_t numel() const {
    std::int64_t n = 1;
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
