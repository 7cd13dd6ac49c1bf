// base/strides.hpp: the places of elements in memory.
#pragma once

#include <type_traits>

namespace sinter::detail {

/// Row-major strides, in elements, for a list of extents; a list of the same type.
template <class List>
constexpr List row_major_strides(const List& extents) {
  List strides = extents;
  std::decay_t<decltype(*extents.begin())> step = 1;
  auto to = strides.end();
  for (auto from = extents.end(); from != extents.begin(); step *= *from) {
    --from;
    *--to = step;
  }
  return strides;
}

}  // namespace sinter::detail
