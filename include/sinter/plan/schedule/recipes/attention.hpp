// plan/schedule/recipes/attention.hpp: scores of a block of rows and a block of keys, merged into weighted sums a block of keys at a time.
#pragma once

#include "../recipe.hpp"

namespace sinter::engine::plan::schedules {

namespace detail {

/// The contraction of the scores, and the weighted reduction that reads it.
struct attention_parts {
  contraction scores;
  int weighted = -1;
};
inline std::optional<attention_parts> attention_of(const kernel& k) {
  attention_parts out;
  for (std::size_t v = 0; v < k.body.size(); ++v) {
    const auto& i = k.body[v];
    if (i.kind != kind::reduce) continue;
    if (i.rule == merge_rule::weighted) {
      if (out.weighted >= 0 || out.scores.reduce < 0 || i.over != out.scores.n) return std::nullopt;
      out.weighted = static_cast<int>(v);
      continue;
    }
    const auto c = contraction_of(k, static_cast<int>(v));
    if (!c || out.scores.reduce >= 0 || c->m.empty() || c->n.size() != 1 || c->k.size() != 1) return std::nullopt;
    out.scores = *c;
  }
  return out.weighted < 0 ? std::nullopt : std::optional(out);
}
inline bool takes_attention(const kernel& k, const facts&) { return attention_of(k).has_value(); }

/// The part of the weighted reduction that is a product of weights and a matrix of 16 bits in memory; 0: none.
inline int weighted_product(const kernel& k, const attention_parts& a, int row) {
  const auto& sum = k.body[static_cast<std::size_t>(a.weighted)];
  int found = 0;
  for (std::size_t p = 1; p < sum.args.size(); ++p) {
    const int v = unwidened(k, sum.args[p]);
    if (!contraction_of_part(k, a.weighted, p)) continue;
    if (found || !is_plain_load(k, v) ||
        k.body[static_cast<std::size_t>(v)].type != intrinsics()[static_cast<std::size_t>(row)].y)
      return 0;
    found = static_cast<int>(p);
  }
  return found;
}

/// On the matrix units of a GPU, both products. Options: the rows of a warp, and the keys of a block.
inline schedule make_matrix_attention(const kernel& k, const facts& f, const attention_parts& a, int row, int part,
                                      int option) {
  const contraction &c = a.scores, o = *contraction_of_part(k, a.weighted, static_cast<std::size_t>(part));
  const auto& i = intrinsics()[static_cast<std::size_t>(row)];
  const int i0 = c.m.back(), j0 = c.n[0], h0 = c.k[0], e0 = o.n.back();
  // 32 rows a warp, if the sums of both products fit its registers.
  const std::int64_t wide = extent_of(k, e0).number().value_or(0),
                     high = option == 3 || ((option == 0 || option == 5) && wide <= 128) ? 2 * i.m : i.m,
                     keys = option == 0 || option >= 4   ? 64
                            : option == 1 || option == 3 ? 32
                                                         : 16;
  const auto rest = loops::tail::pad;
  steps s("attention", k);
  const int i1 = s.split(i0, high * f.threads, rest), i2 = s.split(i1, high, rest), i3 = s.split(i2, i.m, rest);
  const int j1 = s.split(j0, keys, rest), j2 = s.split(j1, i.n, rest);
  const int h1 = s.split(h0, i.k, rest), e1 = s.split(e0, i.n, rest);
  series<int> outer = c.batch, order;
  append(outer, all_but_last(c.m));
  outer.push_back(i0);
  order = outer;
  append(order, {j0, i1, h0, i2, j1});
  for (int x : all_but_last(o.n)) order.push_back(x);
  append(order, {e0, i3, j2, h1, e1});
  s.add(reorder{order});
  s.bind(outer, loops::bind::grid);
  s.bind({i1}, loops::bind::threads);
  s.bind({i2, j1, e0}, loops::bind::unrolled);
  s.bind({i3, j2, h1, e1}, loops::bind::matrix);
  const int q = unwidened(k, c.x), keyed = unwidened(k, c.y),
            v = unwidened(k, k.body[static_cast<std::size_t>(a.weighted)].args[static_cast<std::size_t>(part)]);
  const auto swizzled = loops::layout::swizzle128;
  s.add(stage{q, i0, loops::space::shared, swizzled, 1, loops::mover::async});
  s.add(stage{q, h0, loops::space::registers});
  s.add(stage{keyed, j0, loops::space::shared, swizzled, 2, loops::mover::async});
  s.add(stage{keyed, h0, loops::space::registers});
  s.add(stage{v, j0, loops::space::shared, swizzled, 2, loops::mover::async});
  s.add(keep{c.reduce, j0});
  s.add(use_matrix{c.reduce, row});
  s.add(use_matrix{a.weighted, row});
  return s.done();
}

inline constexpr int warp_attentions = 6;

/// Both products by groups of warps: 16 rows a warp, `keys` in a block.
inline schedule make_group_attention(const kernel& k, const attention_parts& a, int row, int part, std::int64_t keys) {
  const contraction &c = a.scores, o = *contraction_of_part(k, a.weighted, static_cast<std::size_t>(part));
  const auto& i = intrinsics()[static_cast<std::size_t>(row)];
  const int i0 = c.m.back(), j0 = c.n[0], h0 = c.k[0], e0 = o.n.back();
  const auto rest = loops::tail::pad;
  steps s("attention", k);
  const int i1 = s.split(i0, 2 * warps_of_group * i.m, rest), i2 = s.split(i1, i.m, rest);
  const int j1 = s.split(j0, keys, rest), h1 = s.split(h0, i.k, rest);
  const int e1 = s.split(e0, group_columns(extent_of(k, e0), i, 256), rest);
  series<int> outer = c.batch, order;
  append(outer, all_but_last(c.m));
  outer.push_back(i0);
  order = outer;
  append(order, {j0, i1, h0});
  for (int x : all_but_last(o.n)) order.push_back(x);
  append(order, {e0, i2, j1, h1, e1});
  s.add(reorder{order});
  s.bind(outer, loops::bind::grid);
  s.bind({i1}, loops::bind::threads);
  s.bind({h0, e0}, loops::bind::unrolled);
  s.bind({i2, j1, h1, e1}, loops::bind::matrix);
  const int v = unwidened(k, k.body[static_cast<std::size_t>(a.weighted)].args[static_cast<std::size_t>(part)]);
  const auto shared = loops::space::shared;
  const auto swizzled = loops::layout::swizzle128;
  s.add(stage{unwidened(k, c.x), i0, shared, swizzled, 1, loops::mover::async});
  s.add(stage{unwidened(k, c.y), j0, shared, swizzled, 2, loops::mover::async});
  s.add(stage{v, j0, shared, swizzled, 2, loops::mover::async});
  s.add(keep{c.reduce, j0});
  s.add(use_matrix{c.reduce, row});
  s.add(use_matrix{a.weighted, row});
  return s.done();
}
/// Whether groups of warps take both products: the terms of the scores come in whole intrinsics, the features in columns.
inline bool takes_groups(const kernel& k, const attention_parts& a, int row, int part) {
  if (row < 0) return false;
  const auto& i = intrinsics()[static_cast<std::size_t>(row)];
  const contraction o = *contraction_of_part(k, a.weighted, static_cast<std::size_t>(part));
  const auto deep = extent_of(k, a.scores.k[0]).number();
  return deep && *deep % i.k == 0 && *deep <= 256 && group_columns(extent_of(k, o.n.back()), i, 256) > 0;
}

/// By the matrix units of a GPU, if both products are theirs.
inline std::optional<schedule> make_gpu_attention(const kernel& k, const facts& f, const attention_parts& a,
                                                  int option) {
  const contraction& c = a.scores;
  const int row = matrix_row(k, c, f, scope::warp), group = matrix_row(k, c, f, scope::group);
  if (row < 0 || !is_plain_load(k, unwidened(k, c.x)) || !is_plain_load(k, unwidened(k, c.y))) return std::nullopt;
  const auto& i = intrinsics()[static_cast<std::size_t>(row)];
  const int part = weighted_product(k, a, row);
  if (!part || !chains(i.fs, i.fx, i.n)) return std::nullopt;
  if ((option != 0 && option < warp_attentions) || !takes_groups(k, a, group, part))
    return make_matrix_attention(k, f, a, row, part, option >= warp_attentions ? 0 : option);
  // With few features two blocks of threads share a multiprocessor even so.
  const auto wide = [&](int axis) { return extent_of(k, axis).number().value_or(256); };
  const int features = contraction_of_part(k, a.weighted, static_cast<std::size_t>(part))->n.back();
  const bool few = wide(c.k[0]) <= 64 && wide(features) <= 64;
  return make_group_attention(k, a, group, part, few == (option == 0) ? 128 : 64);
}

/// Options: the blocks of rows and of keys, and whether the scores of the next block come before the current ones are used. On a GPU
/// options 0 and 6 are by groups of warps, if the target has them.
inline schedule make_attention(const kernel& k, const facts& f, int option) {
  struct shape {
    std::int64_t rows, keys;
    bool ahead;
  };
  static constexpr shape shapes[] = {{64, 128, false}, {32, 16, false}, {32, 16, true}};
  const shape& o = shapes[std::min<int>(option, std::size(shapes) - 1)];
  const attention_parts a = *attention_of(k);
  const contraction& c = a.scores;
  const bool gpu = f.threads > 0;
  const cpu_row on_cpu = gpu ? cpu_row{} : cpu_row_of(k, c, f);
  const int row = gpu ? matrix_row(k, c, f, scope::warp) : on_cpu.row;
  if (gpu && option != 2)
    if (auto made = make_gpu_attention(k, f, a, option)) return *made;
  const auto staged = [&](int v) {
    return gpu || (row >= 0 && !on_cpu.widens && intrinsics()[static_cast<std::size_t>(row)].k > 1) ? unwidened(k, v)
                                                                                                    : v;
  };
  const auto all = intrinsics();
  const std::int64_t high = row < 0 ? 4 : all[static_cast<std::size_t>(row)].m,
                     wide = row < 0 ? 8 : all[static_cast<std::size_t>(row)].n,
                     deep = row < 0 ? 4 : all[static_cast<std::size_t>(row)].k;
  const int i0 = c.m.back(), j0 = c.n[0], h0 = c.k[0];
  const auto rest = row < 0 ? loops::tail::guard : loops::tail::pad;
  steps s("attention", k);
  const int i1 = s.split(i0, std::max(o.rows, high), rest), i2 = s.split(i1, high, rest);
  const int j1 = s.split(j0, std::max(o.keys, wide), rest), j2 = s.split(j1, wide, rest);
  const int h1 = s.split(h0, deep, rest);
  series<int> outer = c.batch;
  append(outer, all_but_last(c.m));
  outer.push_back(i0);
  series<int> order = outer;
  if (gpu) append(order, {j0, i1, h0, j1, i2, j2, h1});
  else append(order, {j0, i1, j1, h0, i2, j2, h1});
  for (int x = 0; x < static_cast<int>(k.axes.size()); ++x)
    if (!std::count(order.begin(), order.end(), x)) order.push_back(x);  // the features of the values
  s.add(reorder{order});
  s.bind(outer, loops::bind::grid);
  s.bind({i1}, gpu ? loops::bind::threads : loops::bind::ordered);
  const auto in = gpu ? loops::space::shared : loops::space::stack;
  const bool vnni = row >= 0 && all[static_cast<std::size_t>(row)].y_as == loops::layout::vnni;
  const auto panels = gpu || row < 0 ? loops::layout::rows : loops::layout::panel;
  s.add(stage{staged(c.x), i0, in, vnni ? loops::layout::rows : panels});
  s.add(stage{staged(c.y), j0, in, vnni ? loops::layout::vnni : panels});
  for (std::size_t x = 1; x < k.body[static_cast<std::size_t>(a.weighted)].args.size(); ++x)
    if (const int v = k.body[static_cast<std::size_t>(a.weighted)].args[x];
        k.body[static_cast<std::size_t>(unwidened(k, v))].kind == kind::load)
      s.add(stage{gpu ? unwidened(k, v) : v, j0, in});
  s.add(keep{c.reduce, j0});
  if (row >= 0) {
    s.bind({i2, j2, h1}, loops::bind::matrix);
    s.add(use_matrix{c.reduce, row});
  }
  if (o.ahead) s.add(skew{c.reduce, j0});
  return s.done();
}

}  // namespace detail

inline constexpr recipe attention{"attention", detail::takes_attention, 7, detail::make_attention};

}  // namespace sinter::engine::plan::schedules
