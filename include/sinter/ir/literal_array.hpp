// ir/literal_array.hpp: a tensor's elements in the form of the reference interpreter, and walks over them.
#pragma once

#include <cstdint>

#include "../base/dtype.hpp"
#include "../base/series.hpp"
#include "../base/strides.hpp"

namespace sinter::ir {

/// A dense tensor in row-major order: doubles for floating dtypes, int64 bits for the others.
struct literal_array {
  dtype type = dtype::f32;
  series<std::int64_t> extents;
  series<double> f;
  series<std::int64_t> i;
};

namespace detail {

using extents_t = series<std::int64_t>;

inline std::int64_t count_of(const extents_t& extents) {
  std::int64_t n = 1;
  for (auto e : extents) n *= e;
  return n;
}

using sinter::detail::row_major_strides;

/// body(p, q) for every coordinate in row-major order, where p and q are its offsets under two strides.
template <class F>
void walk(const extents_t& extents, const extents_t& ps, const extents_t& qs, std::int64_t p, std::int64_t q, F&& body,
          std::size_t axis = 0) {
  if (axis == extents.size()) return body(p, q);
  const std::int64_t n = extents[axis], dp = ps[axis], dq = qs[axis];
  if (axis + 1 == extents.size())
    for (std::int64_t i = 0; i < n; ++i) body(p + i * dp, q + i * dq);
  else
    for (std::int64_t i = 0; i < n; ++i) walk(extents, ps, qs, p + i * dp, q + i * dq, body, axis + 1);
}

}  // namespace detail
}  // namespace sinter::ir
