// plan/loops/staging.hpp: copies that run ahead of the turns that read them.
#pragma once

#include "../kernel/root.hpp"
#include "uses.hpp"

namespace sinter::engine::plan::loops {

namespace detail {

/// Another loop over piece p: its first turns, or the one ahead of the current one.
inline int turn_of(tree& t, int p, turns part, std::int64_t ahead) {
  piece copy = t.loop(p);
  copy.of = t.origin(p);
  copy.part = part;
  copy.ahead = ahead;
  t.pieces.push_back(std::move(copy));
  return static_cast<int>(t.pieces.size()) - 1;
}
inline int loop_over(tree& t, int p, series<int> inside) {
  node n;
  n.piece = p;
  n.inside = std::move(inside);
  return t.add(std::move(n));
}
inline int wait_for(tree& t, int x, int lag) {
  node n;
  n.what = act::wait;
  n.tile = x;
  n.lag = lag;
  return t.add(std::move(n));
}
inline bool is_asked_for(const node& n) { return n.what == act::copy && n.by != mover::threads; }

/// Copies of one loop that run equally far ahead: they are asked for together.
struct copies_ahead {
  int ahead;
  series<int> first, later;
};

/// The statements of the loop `l` with its copies asked for ahead; the copies for its first turns go to `before`.
inline series<int> staged_inside(tree& t, int l, series<int>& before) {
  series<int> waits, late, rest;
  series<copies_ahead> all;
  const int p = t[l].piece;
  for (int c : series<int>(t[l].inside)) {
    if (!is_asked_for(t[c])) {
      rest.push_back(c);
      continue;
    }
    const int x = t[c].to;
    const tile& to = t.tiles[static_cast<std::size_t>(x)];
    const int ahead = to.slots - 1 - to.behind;
    if (ahead > 0 && t.loop(p).part != turns::all)
      throw refusal{"stage: the copies into v" + std::to_string(t[c].value) + "'s slots cross the loops into which " +
                        name(t, p) + " is peeled; say guard or pad",
                    ir::no_node};
    if (ahead == 0) {
      late.push_back(c);
      late.push_back(wait_for(t, x, 0));
      continue;
    }
    std::size_t g = 0;
    while (g < all.size() && all[g].ahead != ahead) ++g;
    if (g == all.size()) all.push_back({ahead, {}, {}});
    all[g].first.push_back(t.add(node(t[c])));
    all[g].later.push_back(c);
    waits.push_back(wait_for(t, x, ahead - 1));
  }
  for (auto& g : all) {
    before.push_back(loop_over(t, turn_of(t, p, turns::head, g.ahead), std::move(g.first)));
    waits.push_back(loop_over(t, turn_of(t, p, turns::next, g.ahead), std::move(g.later)));
  }
  for (int c : late) waits.push_back(c);
  for (int c : rest) waits.push_back(c);
  return waits;
}

inline void stage_inside(tree& t, int from) {
  series<int> out;
  for (int c : series<int>(t[from].inside)) {
    stage_inside(t, c);
    if (t[c].what == act::loop && t[c].piece >= 0) {
      series<int> before;
      series<int> inside = staged_inside(t, c, before);
      t[c].inside = std::move(inside);
      for (int b : before) out.push_back(b);
    }
    out.push_back(c);
  }
  t[from].inside = std::move(out);
}

}  // namespace detail

/// Copies by async and tma into tiles of several slots are asked for that many turns ahead, and waited for. Throws refusal.
inline void place_copies(tree& t) {
  for (std::size_t l = 0; l < t.launches.size(); ++l) {
    const int root = t.launches[l].root;
    detail::stage_inside(t, root);
    series<int> out;
    for (int c : series<int>(t[root].inside)) {
      out.push_back(c);
      if (detail::is_asked_for(t[c])) out.push_back(detail::wait_for(t, t[c].to, 0));
    }
    t[root].inside = std::move(out);
  }
}

}  // namespace sinter::engine::plan::loops
