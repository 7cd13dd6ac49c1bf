// plan/schedule/recipes/cpu_product.hpp: a matrix product on a CPU: panels of both factors, blocks of sums in registers.
#pragma once

#include "../recipe.hpp"

namespace sinter::engine::plan::schedules {

namespace detail {

inline bool takes_cpu_product(const kernel& k, const facts& f) {
  return f.threads == 0 && only_contraction(k).has_value();
}

/// Blocks of columns, rows and terms.
struct cpu_blocks {
  std::int64_t n, m, k;
};
inline constexpr cpu_blocks all_cpu_blocks[] = {{1024, 256, 256}, {256, 64, 256}, {32, 16, 8}, {1024, 128, 256}};

/// The terms of a block: as many blocks as at most `most` terms need, of equal length if the number is known.
inline std::int64_t terms_of_block(const dim& extent, std::int64_t most, std::int64_t unit) {
  const auto n = extent.number();
  if (!n || *n <= 0) return clipped(most, extent, unit);
  const std::int64_t parts = (*n + most - 1) / most, each = (*n + parts - 1) / parts;
  return (each + unit - 1) / unit * unit;
}

/// Blocks for an option. For the first, of known extents, they shrink until every processor has several; sums do not depend on them.
inline cpu_blocks blocks_of(const kernel& k, const contraction& c, const facts& f, int option, const cpu_blocks& unit) {
  cpu_blocks o = all_cpu_blocks[option];
  const auto m = extent_of(k, c.m.back()).number(), n = extent_of(k, c.n.back()).number();
  if (option != 0 || !m || !n) return o;
  std::int64_t outer = 1;
  for (std::size_t a = 0; a < k.axes.size(); ++a)
    if (!std::count(c.k.begin(), c.k.end(), static_cast<int>(a)) && static_cast<int>(a) != c.m.back() &&
        static_cast<int>(a) != c.n.back())
      outer *= k.axes[a].extent.number().value_or(1);
  constexpr int blocks_each = 2;
  const auto count = [&] { return outer * ((*m + o.m - 1) / o.m) * ((*n + o.n - 1) / o.n); };
  while (f.processors > 1 && count() < blocks_each * f.processors && (o.n > 4 * unit.n || o.m > 4 * unit.m)) {
    if (o.n > 4 * unit.n) o.n /= 2;
    else o.m /= 2;
  }
  return o;
}

/// The factors that are read where they lie: too seldom for packing to pay, and in whole blocks along each axis.
struct cpu_places {
  bool x = false, y = false;
};
inline cpu_places places_of(const kernel& k, const contraction& c, const intrinsic& i, std::int64_t terms) {
  const auto m = extent_of(k, c.m.back()).number(), n = extent_of(k, c.n.back()).number(),
             d = extent_of(k, c.k.back()).number();
  if (!m || !n || !d || *m <= 0 || *n <= 0 || *d <= 0 || c.k.size() > 1 || i.k != 1 || *d % terms != 0) return {};
  constexpr std::int64_t few = 4, small = 1 << 16;
  const auto is_contiguous = [&](int v, int axis) {
    return k.body[static_cast<std::size_t>(v)].at.at.stride[static_cast<std::size_t>(axis)].is(1);
  };
  cpu_places out;
  out.x = *m % i.m == 0 && *n <= few * i.n && is_plain_load(k, c.x);
  out.y =
      *n % i.n == 0 && (*m <= few * i.m || *n * *d <= small) && is_plain_load(k, c.y) && is_contiguous(c.y, c.n.back());
  return out;
}
/// The greatest multiple of `unit` up to `most` that divides an extent, a multiple of `unit`.
inline std::int64_t divisor_of(const dim& extent, std::int64_t most, std::int64_t unit) {
  const std::int64_t n = *extent.number();
  std::int64_t by = std::min(most, n) / unit * unit;
  while (n % by != 0) by -= unit;
  return by;
}

/// Options: the blocks of columns, rows and terms.
inline schedule make_cpu_product(const kernel& k, const facts& f, int option) {
  const contraction c = *only_contraction(k);
  const auto [row, widens] = cpu_row_of(k, c, f);
  const auto all = intrinsics();
  const std::int64_t high = row < 0 ? 4 : all[static_cast<std::size_t>(row)].m,
                     wide = row < 0 ? 8 : all[static_cast<std::size_t>(row)].n,
                     deep = row < 0 ? 1 : all[static_cast<std::size_t>(row)].k;
  const cpu_blocks o = blocks_of(k, c, f, option, {wide, high, deep});
  const int m0 = c.m.back(), n0 = c.n.back(), k0 = c.k.back();
  const auto rest = loops::tail::pad;
  const std::int64_t terms = terms_of_block(extent_of(k, k0), o.k, deep);
  const bool one_block = c.k.size() == 1 && extent_of(k, k0).number().value_or(terms + 1) <= terms;
  const cpu_places lies = row < 0 ? cpu_places{} : places_of(k, c, all[static_cast<std::size_t>(row)], terms);
  const dim &m = extent_of(k, m0), &n = extent_of(k, n0);
  steps s("cpu product", k);
  const int n1 = s.split(n0, lies.y ? divisor_of(n, o.n, wide) : clipped(o.n, n, wide), rest),
            n2 = s.split(n1, wide, rest);
  const int m1 = s.split(m0, lies.x ? divisor_of(m, o.m, high) : clipped(o.m, m, high), rest),
            m2 = s.split(m1, high, rest);
  const int k1 = one_block ? -1 : s.split(k0, terms, rest), k2 = s.split(one_block ? k0 : k1, deep, rest);
  series<int> outer = c.batch;
  append(outer, all_but_last(c.n));
  append(outer, all_but_last(c.m));
  append(outer, {n0, m0});
  series<int> order = outer;
  append(order, all_but_last(c.k));
  // Sums of one block of terms stay near: they are stored before the next are begun.
  if (one_block) append(order, {n1, m1, k0, m2, n2, k2});
  else append(order, {k0, n1, m1, k1, m2, n2, k2});
  s.add(reorder{order});
  s.bind(outer, loops::bind::grid);
  const bool vnni = row >= 0 && all[static_cast<std::size_t>(row)].y_as == loops::layout::vnni;
  const int x = widens ? c.x : unwidened(k, c.x), y = widens ? c.y : unwidened(k, c.y);
  if (!lies.x) s.add(stage{x, one_block ? m0 : k0, loops::space::scratch, loops::layout::panel});
  if (!lies.y) s.add(stage{y, n1, loops::space::stack, vnni ? loops::layout::vnni : loops::layout::panel});
  s.add(keep{c.reduce, one_block ? m1 : m0});
  if (row >= 0) {
    s.bind({m2, n2, k2}, loops::bind::matrix);
    s.add(use_matrix{c.reduce, row});
  } else {
    s.bind({m2}, loops::bind::unrolled);
    s.bind({n2}, loops::bind::lanes);
  }
  return s.done();
}

}  // namespace detail

inline constexpr recipe cpu_product{"cpu product", detail::takes_cpu_product, 4, detail::make_cpu_product};

}  // namespace sinter::engine::plan::schedules
