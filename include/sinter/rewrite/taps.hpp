// rewrite/taps.hpp: unrolls a reduction over the few taps of windows into one loop over the result.
#pragma once

#include "../ir/ops/taps.hpp"
#include "match.hpp"

namespace sinter::engine::rewrite {

/// The number of places of the axes if it is small; else 0.
inline std::int64_t few_places(const shape& extents, const axes_t& axes) {
  constexpr std::int64_t most = 64;
  std::int64_t n = 1;
  for (auto a : axes) {
    const auto e = extents[static_cast<std::size_t>(a)].number();
    if (!e || *e < 1 || *e > most || (n *= *e) > most) return 0;
  }
  return n;
}

/// reduce(f(windows)) over a few taps = f(tap 0) combined with f(tap 1)…; sums of halves are in f32.
inline value reduce_of_few_taps(const site& s) {
  using ir::ops::tap_reader;
  constexpr std::int64_t max_ops = 512;
  const op combiner = s.n().attr.combiner;
  if (combiner != op::add && combiner != op::maximum && combiner != op::minimum) return {};
  const value x = s.in(0);
  const axes_t axes = s.n().attr.ints;
  const std::int64_t n = few_places(x.extents(), axes);
  if (n < 2) return {};
  const auto size = tap_reader::measure(x);
  if (size.windows == 0 || !size.is_short() || n * size.ops > max_ops) return {};
  const bool half = is_float(s.type()) && size_of(s.type()) < 4;
  const dtype wide = half && combiner == op::add ? dtype::f32 : s.type();
  value all;
  tap_reader::places where(x.extents().size(), -1);
  for (std::int64_t tap = 0; tap < n; ++tap) {
    std::int64_t rest = tap;
    for (std::size_t k = axes.size(); k-- > 0;) {
      const std::int64_t e = *x.extents()[static_cast<std::size_t>(axes[k])].number();
      where[static_cast<std::size_t>(axes[k])] = rest % e;
      rest /= e;
    }
    const value one = cast(tap_reader::at(x, where), wide);
    all = all ? push(combiner, {all, one}) : one;
  }
  return cast(all, s.type());
}

}  // namespace sinter::engine::rewrite
