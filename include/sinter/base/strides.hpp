// base/strides.hpp: where elements lie in memory.
#pragma once

#include <type_traits>

namespace sinter::detail {

/// Row-major strides, in elements, of a list of extents; the same kind of list.
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
