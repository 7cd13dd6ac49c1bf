// plan/schedule/recipes/attention_back.hpp: products of a block of rows and a block of columns, and sums over the columns of values that follow from them.
#pragma once

#include "../recipe.hpp"

namespace sinter::engine::plan::schedules {

namespace detail {

/// Contractions of memory, all with the same rows and columns, and contractions over their columns of values that follow from them.
struct chained_parts {
  series<contraction> scores, sums;
};
/// Whether a value needs a reduction.
inline bool follows_reduction(const kernel& k, int v) {
  series<char> seen(k.body.size(), 0);
  const auto walk = [&](auto&& self, int x) -> bool {
    if (std::exchange(seen[static_cast<std::size_t>(x)], 1)) return false;
    const instruction& i = k.body[static_cast<std::size_t>(x)];
    if (i.kind == kind::reduce) return true;
    for (int a : i.args)
      if (self(self, a)) return true;
    return i.at.at.index >= 0 && self(self, i.at.at.index);
  };
  return walk(walk, v);
}
inline std::optional<chained_parts> chained_of(const kernel& k) {
  chained_parts out;
  for (std::size_t v = 0; v < k.body.size(); ++v) {
    if (k.body[v].kind != kind::reduce) continue;
    const auto c = contraction_of(k, static_cast<int>(v));
    if (!c || c->m.empty() || c->n.empty() || c->k.empty()) return std::nullopt;
    (follows_reduction(k, c->x) ? out.sums : out.scores).push_back(*c);
  }
  if (out.scores.empty() || out.sums.empty()) return std::nullopt;
  const contraction& first = out.scores[0];
  for (const auto& c : out.scores)
    if (!(c.m == first.m) || !(c.n == first.n) || !(c.batch == first.batch) || c.k.size() != 1) return std::nullopt;
  for (const auto& c : out.sums)
    if (!(c.m == first.m) || !(c.k == first.n) || !(c.batch == first.batch) || c.n.size() != 1 ||
        follows_reduction(k, c.y))
      return std::nullopt;
  return out;
}
/// The row of the intrinsics that adds one term of f32 factors at a time; -1: none.
inline int row_of_terms(const facts& f) {
  int found = -1;
  const auto all = intrinsics();
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r].who == scope::thread && all[r].x == dtype::f32 && all[r].y == dtype::f32 && all[r].sum == dtype::f32 &&
        all[r].k == 1 && (!f.has || f.has(all[r].needs)))
      found = static_cast<int>(r);
  return found;
}
/// The row of the intrinsics of a GPU for factors of 16 bits. Those in memory are taken as they lie, weights are rounded; -1: none.
inline int row_of_chain(const kernel& k, const chained_parts& a, const facts& f, scope who = scope::warp) {
  const int row = matrix_row(k, a.scores[0], f, who);
  if (row < 0) return -1;
  const intrinsic& i = intrinsics()[static_cast<std::size_t>(row)];
  if (size_of(i.x) != 2 || !chains(i.fs, i.fx, i.n)) return -1;
  const auto fits = [&](int v) {
    const int narrow = unwidened(k, v);
    return is_plain_load(k, narrow) && k.body[static_cast<std::size_t>(narrow)].type == i.y;
  };
  for (const auto& c : a.scores)
    if (!fits(c.x) || !fits(c.y)) return -1;
  for (const auto& c : a.sums)
    if (!fits(c.y)) return -1;
  return row;
}
inline bool takes_attention_back(const kernel& k, const facts& f) {
  const auto parts = chained_of(k);
  if (!parts || (f.threads > 0 ? row_of_chain(k, *parts, f) : row_of_terms(f)) < 0) return false;
  for (const auto* all : {&parts->scores, &parts->sums})
    for (const auto& c : *all)
      if (k.body[static_cast<std::size_t>(c.reduce)].type != dtype::f32) return false;
  return true;
}

/// The loads of which the left factors of sums are computed and that vary along the rows alone, or along the columns alone.
struct side_loads {
  series<int> rows, columns;
};
inline side_loads side_loads_of(const kernel& k, const chained_parts& a) {
  side_loads out;
  series<char> seen(k.body.size(), 0);
  const std::uint32_t row = 1u << a.scores[0].m.back(), column = 1u << a.scores[0].n.back();
  const auto walk = [&](auto&& self, int v) -> void {
    if (std::exchange(seen[static_cast<std::size_t>(v)], 1)) return;
    const instruction& i = k.body[static_cast<std::size_t>(v)];
    if (i.kind == kind::reduce) return;
    if (is_plain_load(k, v) && (i.axes & row) && !(i.axes & column)) out.rows.push_back(v);
    if (is_plain_load(k, v) && (i.axes & column) && !(i.axes & row) && size_of(i.type) == 4) out.columns.push_back(v);
    for (int x : i.args) self(self, x);
  };
  for (const auto& c : a.sums) walk(walk, c.x);
  return out;
}

/// The tiles of products on matrix units, and of sums: factors come to shared memory, of columns two blocks, and from there to registers.
/// Groups of warps (c1 is -1) read them in shared memory.
inline void stage_chain(steps& s, const kernel& k, const chained_parts& a, int row, int r0, int c0, int c1) {
  const auto shared = loops::space::shared, registers = loops::space::registers;
  const auto swizzled = loops::layout::swizzle128;
  const auto async = loops::mover::async;
  for (const auto& one : a.scores) {
    s.add(stage{unwidened(k, one.x), r0, shared, swizzled, 1, async});
    if (c1 >= 0) s.add(stage{unwidened(k, one.x), one.k[0], registers});
    s.add(stage{unwidened(k, one.y), c0, shared, swizzled, 2, async});
    if (c1 >= 0) s.add(stage{unwidened(k, one.y), one.k[0], registers});
    s.add(keep{one.reduce, c0});
    s.add(use_matrix{one.reduce, row});
  }
  const side_loads sides = side_loads_of(k, a);
  for (int v : sides.rows) s.add(stage{v, r0, registers});
  for (int v : sides.columns) s.add(stage{v, c0, shared, loops::layout::rows, 2, async});
  for (const auto& one : a.sums) {
    s.add(stage{unwidened(k, one.y), c0, shared, swizzled, 2, async});
    s.add(stage{one.x, c0, registers});
    if (c1 >= 0) s.add(stage{unwidened(k, one.y), c1, registers});
    s.add(keep{one.reduce, r0});
    s.add(use_matrix{one.reduce, row});
  }
}

/// The features of all sums together.
inline std::int64_t features_of_sums(const kernel& k, const chained_parts& a) {
  std::int64_t all = 0;
  for (const auto& one : a.sums) all += extent_of(k, one.n[0]).number().value_or(0);
  return all;
}
/// Splits the terms of the scores, and the columns of the sums by columns(axis): `deep` and `further` are the outer pieces.
template <class Columns>
void split_products(steps& s, const chained_parts& a, std::int64_t terms, Columns&& columns, series<int>& deep,
                    series<int>& further, series<int>& inner) {
  for (const auto& one : a.scores) {
    deep.push_back(one.k[0]);
    inner.push_back(s.split(one.k[0], terms, loops::tail::pad));
  }
  for (const auto& one : a.sums) {
    further.push_back(one.n[0]);
    inner.push_back(s.split(one.n[0], columns(one.n[0]), loops::tail::pad));
  }
}

/// On the matrix units of a GPU: the weights of a block are left factors in registers, as the products' sums lie there. Options: the rows
/// of a warp, and the columns of a block.
inline schedule make_matrix_attention_back(const kernel& k, const facts& f, int option) {
  const chained_parts a = *chained_of(k);
  const int row = row_of_chain(k, a, f);
  const intrinsic& i = intrinsics()[static_cast<std::size_t>(row)];
  const contraction& c = a.scores[0];
  const int r0 = c.m.back(), c0 = c.n.back();
  const std::int64_t wide = features_of_sums(k, a);
  // The sums of both kinds of products fit a thread's registers.
  const std::int64_t columns = option == 2                  ? 16
                               : option == 3 && wide <= 128 ? 64
                                                            : 32,
                     high = (option == 0 && wide <= 128) || (option == 1 && wide <= 64) ? 2 * i.m : i.m;
  const auto rest = loops::tail::pad;
  const std::int64_t pair = 2 * i.n;
  steps s("attention back", k);
  const int r1 = s.split(r0, high * f.threads, rest), r2 = s.split(r1, high, rest), r3 = s.split(r2, i.m, rest);
  const int c1 = s.split(c0, columns, rest), c2 = s.split(c1, pair, rest);
  series<int> outer = c.batch, deep, further, inner{r3, c2};
  append(outer, all_but_last(c.m));
  outer.push_back(r0);
  split_products(
      s, a, i.k, [&](int) { return pair; }, deep, further, inner);
  series<int> order = outer;
  append(order, all_but_last(c.n));
  append(order, {c0, r1});
  append(order, deep);
  append(order, {c1});
  append(order, further);
  order.push_back(r2);
  for (int x = 0; x < static_cast<int>(k.axes.size()); ++x)
    if (!std::count(order.begin(), order.end(), x)) order.push_back(x);
  append(order, inner);
  s.add(reorder{order});
  s.bind(outer, loops::bind::grid);
  s.bind({r1}, loops::bind::threads);
  s.bind({r2, c1}, loops::bind::unrolled);
  s.bind(further, loops::bind::unrolled);
  s.bind(inner, loops::bind::matrix);
  stage_chain(s, k, a, row, r0, c0, c1);
  return s.done();
}

/// Whether groups of warps take all products: terms of the scores in whole intrinsics, sums in columns.
inline bool takes_groups(const kernel& k, const chained_parts& a, int row) {
  if (row < 0) return false;
  const intrinsic& i = intrinsics()[static_cast<std::size_t>(row)];
  for (const auto& one : a.scores)
    if (const auto deep = extent_of(k, one.k[0]).number(); !deep || *deep % i.k != 0 || *deep > 256) return false;
  for (const auto& one : a.sums)
    if (group_columns(extent_of(k, one.n[0]), i, 256) == 0) return false;
  return true;
}
/// All products by groups of warps, each of 16 rows, with `columns` in a block.
inline schedule make_group_attention_back(const kernel& k, const chained_parts& a, int row, std::int64_t columns) {
  const intrinsic& i = intrinsics()[static_cast<std::size_t>(row)];
  const contraction& c = a.scores[0];
  const int r0 = c.m.back(), c0 = c.n.back();
  const auto rest = loops::tail::pad;
  steps s("attention back", k);
  const int r1 = s.split(r0, 2 * warps_of_group * i.m, rest), r2 = s.split(r1, i.m, rest),
            c1 = s.split(c0, columns, rest);
  series<int> outer = c.batch, unrolled, inner{r2, c1};
  append(outer, all_but_last(c.m));
  outer.push_back(r0);
  split_products(
      s, a, i.k, [&](int axis) { return group_columns(extent_of(k, axis), i, 256); }, unrolled, unrolled, inner);
  series<int> order = outer;
  append(order, all_but_last(c.n));
  append(order, {c0, r1});
  append(order, unrolled);
  for (int x = 0; x < static_cast<int>(k.axes.size()); ++x)
    if (!std::count(order.begin(), order.end(), x)) order.push_back(x);
  append(order, inner);
  s.add(reorder{order});
  s.bind(outer, loops::bind::grid);
  s.bind({r1}, loops::bind::threads);
  s.bind(unrolled, loops::bind::unrolled);
  s.bind(inner, loops::bind::matrix);
  stage_chain(s, k, a, row, r0, c0, -1);
  return s.done();
}

inline constexpr int warp_attentions_back = 5;

/// By the matrix units of a GPU: option 0 and those from 5 on by groups of warps, if the target has them.
inline schedule make_gpu_attention_back(const kernel& k, const facts& f, int option) {
  const chained_parts a = *chained_of(k);
  const int group = row_of_chain(k, a, f, scope::group);
  const bool grouped = option == 0 || option >= warp_attentions_back;
  // Sums of more than 256 features leave a thread no registers for 64 columns.
  if (grouped && takes_groups(k, a, group))
    return make_group_attention_back(k, a, group, option == 0 && features_of_sums(k, a) <= 256 ? 64 : 32);
  return make_matrix_attention_back(k, f, option == 4 || grouped ? 0 : option);
}

/// Options: the blocks of rows and of columns.
inline schedule make_attention_back(const kernel& k, const facts& f, int option) {
  if (f.threads > 0) return make_gpu_attention_back(k, f, option);
  struct shape {
    std::int64_t rows, columns;
  };
  static constexpr shape shapes[] = {{64, 128}, {16, 32}};
  const shape& o = shapes[std::min(option, 1)];
  const chained_parts a = *chained_of(k);
  const int row = row_of_terms(f);
  const intrinsic& i = intrinsics()[static_cast<std::size_t>(row)];
  const contraction& c = a.scores[0];
  const int r0 = c.m.back(), c0 = c.n.back();
  const auto rest = loops::tail::pad;
  steps s("attention back", k);
  const int r1 = s.split(r0, clipped(o.rows, extent_of(k, r0), i.m), rest), r2 = s.split(r1, i.m, rest);
  const int c1 = s.split(c0, clipped(o.columns, extent_of(k, c0), i.n), rest), c2 = s.split(c1, i.n, rest);
  series<int> outer = c.batch, further, deep, inner{r2, c2};
  append(outer, all_but_last(c.m));
  outer.push_back(r0);
  split_products(
      s, a, 1, [&](int) { return std::int64_t{i.n}; }, deep, further, inner);
  series<int> order = outer;
  append(order, all_but_last(c.n));
  append(order, {c0, r1});
  append(order, further);
  order.push_back(c1);
  append(order, deep);
  for (int x = 0; x < static_cast<int>(k.axes.size()); ++x)
    if (!std::count(order.begin(), order.end(), x)) order.push_back(x);
  append(order, inner);
  s.add(reorder{order});
  s.bind(outer, loops::bind::grid);
  s.bind(inner, loops::bind::matrix);
  const auto panel = loops::layout::panel;
  const auto in = loops::space::stack;
  for (const auto& one : a.scores) {
    s.add(stage{one.x, r0, in, panel});
    s.add(stage{one.y, c0, in, panel});
    s.add(keep{one.reduce, c0});
    s.add(use_matrix{one.reduce, row});
  }
  for (const auto& one : a.sums) {
    s.add(stage{one.x, c0, in, panel});
    s.add(stage{one.y, c0, in, panel});
    s.add(keep{one.reduce, r0});
    s.add(use_matrix{one.reduce, row});
  }
  return s.done();
}

}  // namespace detail

inline constexpr recipe attention_back{"attention back", detail::takes_attention_back, 6, detail::make_attention_back};

}  // namespace sinter::engine::plan::schedules
