// front/loop_rows.hpp: the walk over the rows of an eager loop, which all expressions share.
#pragma once

#include "loop.hpp"

namespace sinter::detail {

SINTER_API void for_each_row(space s, leaf* leaves, int count, const void* e, row_function f, char* out,
                             std::int64_t element) {
  const std::int64_t total = s.size();
  if (total == 0) return;
  s.rank = collapse(s.extent, 0, s.rank, leaves, count);
  const int outer = s.rank > 0 ? s.rank - 1 : 0, axis = s.rank - 1;
  const std::int64_t inner = s.rank > 0 ? s.extent[outer] : 1;
  parallel(total, total, [&](std::int64_t begin, std::int64_t end) {
    walker w(s.extent, 0, outer, leaves, count, begin / inner);
    std::vector<cursor> at(static_cast<std::size_t>(count));
    for (std::int64_t i = begin; i < end; w.next()) {
      place(at.data(), leaves, count, axis, w);
      const std::int64_t first = i % inner, n = std::min(inner - first, end - i);
      f(e, at.data(), first, first + n, out + i * element);
      i += n;
    }
  });
}

}  // namespace sinter::detail
