// plan/loops/uses.hpp: the tiles that a statement reads and writes.
#pragma once

#include "names.hpp"
#include "tree.hpp"

namespace sinter::engine::plan::loops {

/// The tile in which a statement finds a value, among those whose loop is open: the last staged one, else the last result of merges;
/// -1: none. `before`, if it holds the same value, is the tile that the statement writes.
inline int visible_tile(const tree& t, int value, const series<int>& open, int before = -1) {
  const bool own = before >= 0 && t.tiles[static_cast<std::size_t>(before)].value == value;
  for (const bool merged : {false, true})
    for (std::size_t x = t.tiles.size(); x-- > 0;) {
      const tile& tile = t.tiles[x];
      if (tile.value != value || tile.accumulates != merged) continue;
      if (own && (static_cast<int>(x) == before || (!merged && static_cast<int>(x) > before))) continue;
      if (tile.at < 0 || std::count(open.begin(), open.end(), tile.at)) return static_cast<int>(x);
    }
  return -1;
}

/// The number of tiles that a reduction's result takes.
inline int count_of_parts(const instruction& i) {
  switch (i.rule) {
    case merge_rule::one:
      return 1;
    case merge_rule::first:
      return 2;
    case merge_rule::weighted:
      return static_cast<int>(i.args.size());
    case merge_rule::moments:
      return 3;
  }
  return 1;
}

/// Whether `value` is `of`, or a value of which `of` is computed at the same position, along the same axes.
inline bool is_made_of(const kernel& k, int of, int value) {
  if (of == value) return true;
  const instruction& i = k.body[static_cast<std::size_t>(of)];
  if (i.kind != kind::compute || k.body[static_cast<std::size_t>(value)].axes != i.axes) return false;
  for (int a : i.args)
    if (is_made_of(k, a, value)) return true;
  return false;
}
/// The operand, 0 or 1, of the contraction `product` that is made of `value`; -1: neither.
inline int operand_of_matrix(const tree& t, int product, int value) {
  const auto c = contraction_of(*t.code, product);
  if (!c || value < 0) return -1;
  return is_made_of(*t.code, c->x, value) ? 0 : is_made_of(*t.code, c->y, value) ? 1 : -1;
}

/// The values that a statement starts from.
inline series<int> roots_of(const tree& t, const node& n) {
  series<int> out;
  if (n.what == act::store) {
    const store& s = t.code->stores[static_cast<std::size_t>(n.value)];
    out.push_back(s.value);
    if (s.at.at.index >= 0) out.push_back(s.at.at.index);
  } else if ((n.what == act::define || n.what == act::copy) && n.tile < 0) {
    out.push_back(n.value);
  } else if (n.what == act::matrix) {
    const auto c = contraction_of(*t.code, n.value);
    if (c) out = {c->x, c->y};
  } else if (n.what == act::merge && n.tile < 0) {
    for_each_operand(t.at(n.value), [&](int o) { out.push_back(o); });
  }
  return out;
}

/// The values that a statement takes from tiles: those it needs and does not compute.
inline series<int> values_read(const tree& t, const node& n) {
  series<int> out;
  const auto look = [&](int v) {
    if (!std::count(n.body.begin(), n.body.end(), v) && !std::count(out.begin(), out.end(), v)) out.push_back(v);
  };
  for (int r : roots_of(t, n)) look(r);
  for (int b : n.body) for_each_operand(t.at(b), look);
  return out;
}

/// A tile that a statement touches.
struct tile_use {
  int tile = -1;
  bool writes = false;
};
/// All of them; values that are in no tile are left out.
inline series<tile_use> uses_of(const tree& t, const node& n, const series<int>& open) {
  series<tile_use> out;
  for (int v : values_read(t, n))
    if (const int x = visible_tile(t, v, open, n.to); x >= 0) out.push_back({x, false});
  const int parts = n.what == act::merge || n.what == act::matrix ? count_of_parts(t.at(n.value)) : 1;
  for (int p = 0; n.tile >= 0 && n.what != act::wait && p < parts; ++p) out.push_back({n.tile + p, false});
  for (int p = 0; n.to >= 0 && p < parts; ++p) out.push_back({n.to + p, true});
  return out;
}

/// The tile with slots that a product may still read in later turns of the tile's loop; -1: none.
inline int tile_behind(const tree& t, const node& product) {
  const auto c = contraction_of(*t.code, product.value);
  for (std::size_t x = 0; c && x < t.tiles.size(); ++x)
    if (const int v = t.tiles[x].value;
        t.tiles[x].behind > 0 && v >= 0 && (v == unwidened(*t.code, c->x) || v == unwidened(*t.code, c->y)))
      return static_cast<int>(x);
  return -1;
}

/// The tile with a fragment of which a weighted merge computes its weights; -1: none.
inline int score_of(const tree& t, const node& n, const series<int>& open) {
  for (int v : values_read(t, n)) {
    const int x = visible_tile(t, v, open);
    if (x >= 0 && t.tiles[static_cast<std::size_t>(x)].row >= 0 && t.tiles[static_cast<std::size_t>(x)].operand == 2)
      return x;
  }
  return -1;
}

/// Whether a tile is the same for all threads of a block.
inline bool is_common(const tile& x) { return x.in == space::shared || x.in == space::scratch; }

}  // namespace sinter::engine::plan::loops
