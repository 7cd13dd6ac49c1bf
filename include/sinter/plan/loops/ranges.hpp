// plan/loops/ranges.hpp: loops over a reduced axis pass over turns that a mask lets nothing through.
#pragma once

#include "scalars.hpp"
#include "uses.hpp"

namespace sinter::engine::plan::loops {

namespace detail {

/// Whether an instruction is the literal that changes no merge of a reduction.
inline bool is_neutral(const kernel& k, const instruction& reduce, int v) {
  const instruction& i = k.body[static_cast<std::size_t>(v)];
  if (i.kind != kind::literal || !i.at.at.offset.is(0)) return false;
  const scalar want = nothing_of(reduce, static_cast<std::size_t>(count_of_parts(reduce)))[0];
  return is_float(i.type) ? i.literal.f == want.f : i.literal.i == want.i;
}

/// The condition outside which a reduction's terms change nothing; -1: none.
inline int mask_of(const kernel& k, const instruction& reduce) {
  if (reduce.rule != merge_rule::one && reduce.rule != merge_rule::weighted) return -1;
  int first = reduce.args[0];
  // A product of what is 0 outside the mask.
  if (const auto c = contraction_of(k, static_cast<int>(&reduce - k.body.data())); c && c->a.buffer < 0) first = c->x;
  const instruction& term = k.body[static_cast<std::size_t>(first)];
  if (term.kind != kind::compute || term.code != ir::op::select || !is_neutral(k, reduce, term.args[2])) return -1;
  return k.body[static_cast<std::size_t>(term.args[0])].kind == kind::inside ? term.args[0] : -1;
}

/// The range's bounds of positions along `axis`, for all positions of the loops that are not among `open`.
inline void bound(const tree& t, const range& r, int axis, const series<int>& open, piece& to) {
  const auto step = r.at.stride[static_cast<std::size_t>(axis)].number();
  if (!step || (*step != 1 && *step != -1)) return;
  if (r.at.index >= 0 && t.at(r.at.index).axes != 0) return;
  affine rest = r.at;
  rest.stride[static_cast<std::size_t>(axis)] = 0;
  dim most = 0, least = 0;
  for (std::size_t a = 0; a < rest.stride.size(); ++a) {
    const dim& c = rest.stride[a];
    if (c.is(0)) continue;
    const dim inner =
        span_of_pieces(t, static_cast<int>(a), [&](int p) { return !std::count(open.begin(), open.end(), p); }) -
        dim(1);
    if (!c.is_number()) return;
    (*c.number() > 0 ? most : least) += c * inner;
  }
  const auto shifted = [&](const dim& by, bool negated) {
    affine out = rest;
    if (negated) {
      out.offset = dim(0) - out.offset;
      out.indirect = dim(0) - out.indirect;
      for (auto& s : out.stride) s = dim(0) - s;
    }
    out.offset += by;
    return out;
  };
  // 0 <= rest + step · j < extent, for some position of the other loops.
  if (*step == -1) {
    to.high.push_back(shifted(most + dim(1), false));
    to.low.push_back(shifted(least - r.extent + dim(1), false));
  } else {
    to.low.push_back(shifted(dim(0) - most, true));
    to.high.push_back(shifted(r.extent - least, true));
  }
}

inline bool adds_terms(const node& n) { return (n.what == act::merge && n.tile < 0) || n.what == act::matrix; }
/// Whether the statements at `from` merge terms of a reduction.
inline bool merges(const tree& t, int from, int value) {
  bool found = false;
  for_each_inside(t, from, [&](int n) { found = found || (adds_terms(t[n]) && t[n].value == value); });
  return found;
}
/// Whether all reductions along an axis at `from` have one mask.
inline bool have_one_mask(const tree& t, int from, int axis, int mask) {
  bool one = true;
  for_each_inside(t, from, [&](int n) {
    if (!adds_terms(t[n]) || !(axes_over(t.at(t[n].value)) >> axis & 1u)) return;
    one = one && mask_of(*t.code, t.at(t[n].value)) == mask;
  });
  return one;
}
inline bool stores_something(const tree& t, int from) {
  bool found = false;
  for_each_inside(t, from, [&](int n) { found = found || t[n].what == act::store; });
  return found;
}

inline void bound_loops(tree& t, int from, int value, int axis, int mask, series<int>& open) {
  for (int c : series<int>(t[from].inside)) {
    if (t[c].what != act::loop || t[c].piece < 0 || !merges(t, c, value)) continue;
    const int p = t[c].piece;
    bool in_turn = t.loop(p).to != bind::threads && t.loop(p).to != bind::grid;
    for (int o : open) in_turn = in_turn && (t.loop(o).axis != axis || t.loop(o).to != bind::threads);
    if (t.loop(p).axis == axis && in_turn && !stores_something(t, c)) {
      const bool bounded = !t.loop(p).low.empty() || !t.loop(p).high.empty();
      if (bounded || !have_one_mask(t, c, axis, mask)) continue;
      piece copy = t.loop(p);
      copy.of = t.origin(p);
      for (const auto& r : t.at(mask).ranges) bound(t, r, axis, open, copy);
      if (copy.low.empty() && copy.high.empty()) continue;
      t[c].piece = static_cast<int>(t.pieces.size());
      t.pieces.push_back(std::move(copy));
      continue;  // the outermost loop alone
    }
    open.push_back(t.origin(p));
    bound_loops(t, c, value, axis, mask, open);
    open.pop_back();
  }
}

}  // namespace detail

/// Bounds the outermost loop over a reduced axis by what the term's mask lets through.
inline void place_ranges(tree& t) {
  for (std::size_t v = 0; v < t.code->body.size(); ++v) {
    const instruction& i = t.code->body[v];
    if (i.kind != kind::reduce) continue;
    const int mask = detail::mask_of(*t.code, i);
    if (i.over.size() != 1 && !contraction_of(*t.code, static_cast<int>(v))) continue;
    series<int> open;
    for (std::size_t l = 0; mask >= 0 && l < t.launches.size(); ++l)
      detail::bound_loops(t, t.launches[l].root, static_cast<int>(v), i.over.back(), mask, open);
  }
}

}  // namespace sinter::engine::plan::loops
