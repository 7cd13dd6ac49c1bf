// plan/schedule/recipes/gpu_product.hpp: a matrix product on a GPU: rings of tiles in shared memory, sums in the registers of warps.
#pragma once

#include "../recipe.hpp"

namespace sinter::engine::plan::schedules {

namespace detail {

inline bool takes_gpu_product(const kernel& k, const facts& f) {
  if (f.threads == 0) return false;
  const auto c = only_contraction(k);
  return c && matrix_row(k, *c, f, scope::warp) >= 0;
}

/// The loads of which a factor is computed at its own position.
inline void loads_of_factor(const kernel& k, int v, series<int>& out) {
  const auto& i = k.body[static_cast<std::size_t>(v)];
  if (is_plain_load(k, v) && !std::count(out.begin(), out.end(), v)) out.push_back(v);
  if (i.kind != kind::compute) return;
  for (int a : i.args)
    if (k.body[static_cast<std::size_t>(a)].axes == i.axes) loads_of_factor(k, a, out);
}
/// A factor's elements come to shared memory ahead of their turn, then to registers as the intrinsic takes them. Computed factors are
/// computed there.
inline void stage_factor(steps& s, const kernel& k, int v, int turn, int inner, int slots) {
  const int narrow = unwidened(k, v);
  series<int> loads;
  loads_of_factor(k, narrow, loads);
  for (int x : loads)
    s.add(stage{x, turn, loops::space::shared, loops::layout::swizzle128, slots, loops::mover::async});
  for (int x : loads) s.add(stage{x, inner, loops::space::registers});
  if (!std::count(loads.begin(), loads.end(), narrow)) s.add(stage{narrow, inner, loops::space::registers});
}

/// By groups of warps: a factor's elements come to shared memory ahead of their turn, and nowhere else. Throws refusal.
inline schedule make_group_product(const kernel& k, const facts& f, int option) {
  struct shape {
    std::int64_t m, n;
    int slots, behind;
  };
  static constexpr shape shapes[] = {{128, 128, 3, 0}, {128, 256, 4, 1}, {256, 128, 4, 1}, {64, 256, 4, 1}};
  const shape& o = shapes[option];
  const contraction c = *only_contraction(k);
  const int row = matrix_row(k, c, f, scope::group);
  if (row < 0) throw refusal{"gpu product: the target has no products by groups of warps", ir::no_node};
  for (int v : {c.x, c.y})
    if (!is_plain_load(k, unwidened(k, v)))
      throw refusal{"gpu product: groups of warps take factors that are loaded, not computed", ir::no_node};
  const auto& i = intrinsics()[static_cast<std::size_t>(row)];
  const int m0 = c.m.back(), n0 = c.n.back(), k0 = c.k.back();
  const auto rest = loops::tail::pad;
  steps s("gpu product", k);
  const int m1 = s.split(m0, o.m, rest), m2 = s.split(m1, i.m, rest), n1 = s.split(n0, o.n, rest);
  const int k1 = s.split(k0, 4 * i.k, rest), k2 = s.split(k1, i.k, rest);
  series<int> outer = c.batch, order;
  append(outer, all_but_last(c.m));
  append(outer, all_but_last(c.n));
  append(outer, {m0, n0});
  order = outer;
  append(order, all_but_last(c.k));
  append(order, {k0, m1, k1, m2, n1, k2});
  s.add(reorder{order});
  s.bind(outer, loops::bind::grid);
  s.bind({m1}, loops::bind::threads);
  s.bind({k1}, loops::bind::unrolled);
  s.bind({m2, n1, k2}, loops::bind::matrix);
  for (int v : {c.x, c.y})
    s.add(stage{unwidened(k, v), k0, loops::space::shared, loops::layout::swizzle128, o.slots, loops::mover::async,
                o.behind});
  s.add(use_matrix{c.reduce, row});
  return s.done();
}

inline constexpr int warp_products = 7, group_products = 4;

/// Options: tiles of 128 to 32, a slot's intrinsics along the terms, slots; 5 and 6 divide the terms among blocks. The last
/// four are of groups of warps.
inline schedule make_gpu_product(const kernel& k, const facts& f, int option) {
  if (option >= warp_products) return make_group_product(k, f, option - warp_products);
  struct shape {
    std::int64_t m, n, terms;
    int slots;
    std::int64_t parts;  ///< turns of terms that a block adds; 0: all
  };
  static constexpr shape shapes[] = {{128, 128, 2, 4, 0}, {64, 64, 4, 3, 0}, {32, 16, 2, 3, 0}, {128, 128, 4, 3, 0},
                                     {128, 64, 4, 3, 0},  {64, 64, 4, 3, 8}, {32, 16, 1, 2, 2}};
  const shape& o = shapes[option];
  const contraction c = *only_contraction(k);
  const int row = matrix_row(k, c, f, scope::warp);
  const auto& i = intrinsics()[static_cast<std::size_t>(row)];
  const int m0 = c.m.back(), n0 = c.n.back(), k0 = c.k.back();
  const auto rest = loops::tail::pad;
  steps s("gpu product", k);
  const int m1 = s.split(m0, o.m, rest), m2 = s.split(m1, o.m / 2, rest), m3 = s.split(m2, i.m, rest);
  const int n1 = s.split(n0, o.n, rest), n2 = s.split(n1, o.n / 2, rest), n3 = s.split(n2, i.n, rest);
  const int k1 = s.split(k0, o.terms * i.k * std::max<std::int64_t>(1, o.parts), rest);
  const int turn = o.parts ? k1 : k0, inner = o.parts ? s.split(k1, o.terms * i.k, rest) : k1,
            k2 = s.split(inner, i.k, rest);
  series<int> outer;
  if (o.parts) outer.push_back(k0);
  append(outer, c.batch);
  append(outer, all_but_last(c.m));
  append(outer, all_but_last(c.n));
  append(outer, {m0, n0});
  series<int> order = outer;
  append(order, all_but_last(c.k));
  append(order, {turn, m1, n1, inner, m2, n2, m3, n3, k2});
  s.add(reorder{order});
  s.bind(outer, loops::bind::grid);
  s.bind({m1, n1}, loops::bind::threads);
  s.bind({m2, n2}, loops::bind::unrolled);
  s.bind({m3, n3, k2}, loops::bind::matrix);
  stage_factor(s, k, c.x, turn, inner, o.slots);
  stage_factor(s, k, c.y, turn, inner, o.slots);
  s.add(use_matrix{c.reduce, row});
  if (o.parts) s.add(share{c.reduce, k0, share::way::launch});
  return s.done();
}

}  // namespace detail

/// The option whose blocks fill the processors, for the example extents `m`, `n`, `terms` and `batch`.
inline int gpu_product_option(const kernel& k, const facts& f, std::int64_t m, std::int64_t n, std::int64_t terms,
                              std::int64_t batch) {
  const auto tiles = [&](std::int64_t high, std::int64_t wide) {
    return (m + high - 1) / high * ((n + wide - 1) / wide) * batch;
  };
  const auto blocks = [&](std::int64_t side) { return tiles(side, side); };
  const contraction c = *only_contraction(k);
  const bool loaded = is_plain_load(k, unwidened(k, c.x)) && is_plain_load(k, unwidened(k, c.y)),
             grouped = loaded && terms >= 64 && matrix_row(k, c, f, scope::group) >= 0;
  if (grouped && tiles(128, 256) >= f.processors) return detail::warp_products + 1;
  if (grouped && blocks(128) * 2 >= f.processors) return detail::warp_products;
  if (blocks(128) >= f.processors) return 0;
  return blocks(64) * 2 <= f.processors && terms >= 1024 ? 5 : 1;
}

inline constexpr recipe gpu_product{"gpu product", detail::takes_gpu_product,
                                    detail::warp_products + detail::group_products, detail::make_gpu_product};

}  // namespace sinter::engine::plan::schedules
