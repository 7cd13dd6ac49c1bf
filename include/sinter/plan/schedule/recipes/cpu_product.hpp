// plan/schedule/recipes/cpu_product.hpp: a matrix product on a CPU: panels of both factors, blocks of sums in registers.
#pragma once

#include "../recipe.hpp"

namespace sinter::engine::plan::schedules {

namespace detail {

inline bool takes_cpu_product(const kernel& k, const facts& f) {
  return f.threads == 0 && only_contraction(k).has_value();
}

/// Options: the blocks of columns, rows and terms.
inline schedule make_cpu_product(const kernel& k, const facts& f, int option) {
  static constexpr std::int64_t blocks[][3] = {{1024, 128, 256}, {256, 64, 256}, {32, 16, 8}};
  const auto [nb, mb, kb] = blocks[option];
  const contraction c = *only_contraction(k);
  const int row = matrix_row(k, c, f, scope::thread);
  const auto all = intrinsics();
  const std::int64_t high = row < 0 ? 4 : all[static_cast<std::size_t>(row)].m,
                     wide = row < 0 ? 8 : all[static_cast<std::size_t>(row)].n,
                     deep = row < 0 ? 1 : all[static_cast<std::size_t>(row)].k;
  const int m0 = c.m.back(), n0 = c.n.back(), k0 = c.k.back();
  const auto rest = loops::tail::pad;
  steps s("cpu product", k);
  const int n1 = s.split(n0, clipped(nb, extent_of(k, n0), wide), rest), n2 = s.split(n1, wide, rest);
  const int m1 = s.split(m0, clipped(mb, extent_of(k, m0), high), rest), m2 = s.split(m1, high, rest);
  const int k1 = s.split(k0, clipped(kb, extent_of(k, k0), deep), rest), k2 = s.split(k1, deep, rest);
  series<int> outer = c.batch;
  append(outer, all_but_last(c.n));
  append(outer, all_but_last(c.m));
  append(outer, {n0, m0});
  series<int> order = outer;
  append(order, all_but_last(c.k));
  append(order, {k0, n1, m1, k1, m2, n2, k2});
  s.add(reorder{order});
  s.bind(outer, loops::bind::grid);
  const bool vnni = row >= 0 && all[static_cast<std::size_t>(row)].y_as == loops::layout::vnni;
  s.add(stage{unwidened(k, c.x), k0, loops::space::scratch, loops::layout::panel});
  s.add(stage{unwidened(k, c.y), n1, loops::space::stack, vnni ? loops::layout::vnni : loops::layout::panel});
  s.add(keep{c.reduce, m0});
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

inline constexpr recipe cpu_product{"cpu product", detail::takes_cpu_product, 3, detail::make_cpu_product};

}  // namespace sinter::engine::plan::schedules
