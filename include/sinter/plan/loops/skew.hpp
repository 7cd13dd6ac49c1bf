// plan/loops/skew.hpp: a value of the next turn is computed before the current one is used.
#pragma once

#include "../schedule/step.hpp"
#include "staging.hpp"

namespace sinter::engine::plan::loops {

namespace detail {

/// Whether a statement at `from` makes the value.
inline bool makes(const tree& t, int from, int value) {
  bool found = false;
  for_each_inside(t, from, [&](int n) {
    const node& x = t[n];
    found = found || (x.what != act::store && x.what != act::loop && x.to >= 0 && x.value == value);
  });
  return found;
}
inline bool reads(const tree& t, int from, int x) {
  bool found = false;
  for_each_inside(t, from, [&](int n) {
    for (int v : values_read(t, t[n])) found = found || v == t.tiles[static_cast<std::size_t>(x)].value;
  });
  return found;
}

/// The tile that the statements at `from` make, if they store and merge nothing; -1: none.
inline int tile_made(const tree& t, int from) {
  int made = -1;
  bool other = false;
  for_each_inside(t, from, [&](int n) {
    const act what = t[n].what;
    if (what == act::define || what == act::copy) made = t[n].to;
    else other = other || what != act::loop;
  });
  return other ? -1 : made;
}

/// Copies of the statements, so that both loops have their own.
inline series<int> copies_of(tree& t, const series<int>& all) {
  const auto copy = [&](auto&& self, int from) -> int {
    node n = t[from];
    for (int& c : n.inside) c = self(self, c);
    return t.add(std::move(n));
  };
  series<int> out;
  for (int c : all) out.push_back(copy(copy, c));
  return out;
}

/// The statements of loop `l` that make what the value alone reads there, and the value.
inline series<int> moved_ahead(const tree& t, int l, int value) {
  series<int> out, others;
  for (int c : t[l].inside) (makes(t, c, value) ? out : others).push_back(c);
  for (std::size_t i = others.size(); i-- > 0;) {
    const int x = tile_made(t, others[i]);
    if (x < 0) continue;
    bool only = true, needed = false;
    for (int c : out) needed = needed || reads(t, c, x);
    for (std::size_t j = 0; j < others.size(); ++j) only = only && (j == i || !reads(t, others[j], x));
    if (!needed) continue;
    const std::string what = "skew: v" + std::to_string(t.tiles[static_cast<std::size_t>(x)].value);
    if (is_asked_for(t[others[i]])) throw refusal{what + " is copied ahead already; let threads copy it", ir::no_node};
    if (!only) throw refusal{what + " is read in the current turn, too", ir::no_node};
    out.insert(out.begin(), others[i]);
    others.erase(others.begin() + i);
  }
  return out;
}

}  // namespace detail

/// Throws refusal.
inline void place_skew(tree& t, const schedules::skew& s) {
  int outer = -1, l = -1;
  for (std::size_t n = 0; n < t.nodes.size(); ++n)
    for (int c : t.nodes[n].inside)
      if (t[c].what == act::loop && t[c].piece >= 0 && t.origin(t[c].piece) == s.over &&
          t.loop(t[c].piece).part == turns::all)
        for (int d : t[c].inside)
          if (detail::makes(t, d, s.value)) outer = static_cast<int>(n), l = c;
  if (l < 0)
    throw refusal{"skew: v" + std::to_string(s.value) + " is not made at the begin of a turn of " + name(t, s.over),
                  ir::no_node};
  if (t.loop(s.over).to != bind::ordered && t.loop(s.over).to != bind::unrolled)
    throw refusal{"skew: the turns of " + name(t, s.over) + " have no order", ir::no_node};
  const series<int> moved = detail::moved_ahead(t, l, s.value);
  for (int c : moved)
    for_each_inside(t, c, [&](int n) {
      if (const int x = t[n].to; x >= 0 && t.tiles[static_cast<std::size_t>(x)].at == s.over)
        t.tiles[static_cast<std::size_t>(x)].slots = std::max(t.tiles[static_cast<std::size_t>(x)].slots, 2);
    });
  series<int> rest;
  for (int c : t[l].inside)
    if (!std::count(moved.begin(), moved.end(), c)) rest.push_back(c);
  const int p = t[l].piece;
  const int head = detail::turn_of(t, p, turns::head, 1), next = detail::turn_of(t, p, turns::next, 1);
  const int first = detail::loop_over(t, head, detail::copies_of(t, moved));
  rest.insert(rest.begin(), detail::loop_over(t, next, moved));
  t[l].inside = std::move(rest);
  series<int>& around = t[outer].inside;
  around.insert(std::find(around.begin(), around.end(), l), first);
}

}  // namespace sinter::engine::plan::loops
