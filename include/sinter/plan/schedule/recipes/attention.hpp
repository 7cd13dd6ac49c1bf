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

/// Options: the blocks of rows and of keys, and whether the scores of the next block come before the current ones are used.
inline schedule make_attention(const kernel& k, const facts& f, int option) {
  struct shape {
    std::int64_t rows, keys;
    bool ahead;
  };
  static constexpr shape shapes[] = {{64, 128, false}, {32, 16, false}, {32, 16, true}};
  const shape& o = shapes[option];
  const attention_parts a = *attention_of(k);
  const contraction& c = a.scores;
  const bool gpu = f.threads > 0;
  const int row = matrix_row(k, c, f, gpu ? scope::warp : scope::thread);
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
  append(order, {j0, i1, h0, j1, i2, j2, h1});
  for (int x = 0; x < static_cast<int>(k.axes.size()); ++x)
    if (!std::count(order.begin(), order.end(), x)) order.push_back(x);  // the features of the values
  s.add(reorder{order});
  s.bind(outer, loops::bind::grid);
  s.bind({i1}, gpu ? loops::bind::threads : loops::bind::ordered);
  const auto in = gpu ? loops::space::shared : loops::space::stack;
  s.add(stage{unwidened(k, c.x), i0, in});
  const bool vnni = row >= 0 && all[static_cast<std::size_t>(row)].y_as == loops::layout::vnni;
  s.add(stage{unwidened(k, c.y), j0, in, vnni ? loops::layout::vnni : loops::layout::rows});
  for (std::size_t x = 1; x < k.body[static_cast<std::size_t>(a.weighted)].args.size(); ++x)
    if (const int v = unwidened(k, k.body[static_cast<std::size_t>(a.weighted)].args[x]);
        k.body[static_cast<std::size_t>(v)].kind == kind::load)
      s.add(stage{v, j0, in});
  s.add(keep{c.reduce, j0});
  if (row >= 0) {
    s.bind({i2, j2, h1}, loops::bind::matrix);
    s.add(use_matrix{c.reduce, row});
  }
  if (o.ahead) s.add(skew{c.reduce, j0});
  return s.done();
}

}  // namespace detail

inline constexpr recipe attention{"attention", detail::takes_attention, 3, detail::make_attention};

}  // namespace sinter::engine::plan::schedules
