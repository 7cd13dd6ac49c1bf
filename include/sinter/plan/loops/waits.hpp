// plan/loops/waits.hpp: barriers between threads of a block that write and read a common tile.
#pragma once

#include "staging.hpp"

namespace sinter::engine::plan::loops {

/// A use of a slot of a common tile since the last barrier. `turn` is relative to the tile's loop.
struct pending_use {
  int tile = -1;
  int turn = 0;
  bool writes = false;
  bool any_turn = false;  ///< of an earlier run of the tile's loop
  int outlasts = 0;       ///< barriers that do not end it
  bool operator==(const pending_use&) const = default;
};

/// Walks statements in the order in which a thread meets them, and tells where two threads may meet in a tile.
template <class Conflict>
class pending_walk {
 public:
  /// conflict(parent node, place among its statements, use, earlier use) is called where a barrier is missing; true: it was put there.
  pending_walk(const tree& t, Conflict conflict) : t_(t), conflict_(std::move(conflict)) {}

  void run(int root) { sequence(root); }

 private:
  static constexpr int max_turns = 3;

  const tile& at(int x) const { return t_.tiles[static_cast<std::size_t>(x)]; }

  /// Whether barriers may lie inside: its turns are the same for all threads.
  bool may_hold_barriers(int n) const {
    if (t_[n].what != act::loop) return false;
    bool common = false;
    for_each_inside(t_, n, [&](int c) {
      const node& x = t_[c];
      common = common || x.what == act::barrier || x.what == act::wait || (x.to >= 0 && is_common(at(x.to)));
    });
    return common;
  }

  void sequence(int n) {
    for (std::size_t i = 0; i < t_[n].inside.size(); ++i) {
      const int c = t_[n].inside[i];
      if (t_[c].what == act::barrier) {
        pass_barrier();
        continue;
      }
      if (may_hold_barriers(c)) {
        if (t_[c].piece >= 0 && meets(c) && conflict_(n, i)) {
          pass_barrier();
          ++i;
        }
        enter(c);
        continue;
      }
      if (meets(c) && conflict_(n, i)) {
        pass_barrier();
        ++i;
      }
      note(c);
    }
  }

  void pass_barrier() {
    erase_if(pending_, [](pending_use& u) { return u.outlasts-- <= 0; });
  }
  /// Whether a loop has a turn for all sizes.
  bool surely_runs(const piece& p) const {
    return p.part == turns::all && p.low.empty() && p.high.empty() && p.extent.lower_bound() > 0;
  }
  void enter(int c) {
    if (t_[c].piece < 0) return sequence(c);
    const piece& p = t_.loop(t_[c].piece);
    const int origin = t_.origin(t_[c].piece);
    const auto before = pending_;
    open_.push_back(origin);
    if (p.part == turns::next) {
      const auto was = std::pair(shift_, shifted_);
      shift_ = static_cast<int>(p.ahead), shifted_ = origin;
      sequence(c);
      std::tie(shift_, shifted_) = was;
    } else {
      // A block takes one turn of the grid.
      for (int turn = 0; turn < (p.to == bind::grid ? 1 : max_turns); ++turn) {
        sequence(c);
        pass(origin);
      }
      for (auto& u : pending_)
        if (at(u.tile).at == origin) u.any_turn = true, u.turn = 0;
    }
    open_.pop_back();
    // Barriers inside a loop without turns are none.
    if (!surely_runs(p))
      for (const auto& u : before) remember(u);
  }
  /// The next turn of a loop begins.
  void pass(int origin) {
    for (auto& u : pending_)
      if (at(u.tile).at == origin && !u.any_turn) --u.turn;
  }

  series<pending_use> uses(int c) {
    series<pending_use> out;
    collect(c, out);
    return out;
  }
  void collect(int c, series<pending_use>& out) {
    const node& n = t_[c];
    if (n.what == act::loop) {
      const bool next = n.piece >= 0 && t_.loop(n.piece).part == turns::next;
      const auto was = std::pair(shift_, shifted_);
      if (next) shift_ = static_cast<int>(t_.loop(n.piece).ahead), shifted_ = t_.origin(n.piece);
      if (n.piece >= 0) open_.push_back(t_.origin(n.piece));
      for (int d : n.inside) collect(d, out);
      if (n.piece >= 0) open_.pop_back();
      std::tie(shift_, shifted_) = was;
      return;
    }
    if (n.what == act::wait) {
      out.push_back({n.tile, 0, true, false});
      return;
    }
    for (const auto& u : uses_of(t_, n, open_))
      if (is_common(at(u.tile)))
        out.push_back({t_.memory_of(u.tile), at(u.tile).at == shifted_ ? shift_ : 0, u.writes, false,
                       n.what == act::matrix && !u.writes ? at(u.tile).behind : 0});
  }
  bool meets(int c) {
    if (t_[c].what == act::wait) return false;  // a thread waits for its own copies
    for (const auto& u : uses(c))
      for (const auto& e : pending_) {
        if (u.tile != e.tile || u.writes == e.writes) continue;  // an element is always written by the same thread
        const int slots = at(u.tile).slots;
        if (e.any_turn || (u.turn - e.turn) % slots == 0) return true;
      }
    return false;
  }
  void note(int c) {
    if (detail::is_asked_for(t_[c])) return;  // it is written when it was waited for
    for (const auto& u : uses(c)) remember(u);
  }

  void remember(const pending_use& u) {
    if (!std::count(pending_.begin(), pending_.end(), u)) pending_.push_back(u);
  }

  const tree& t_;
  Conflict conflict_;
  series<pending_use> pending_;
  series<int> open_;
  int shift_ = 0, shifted_ = -2;
};

/// Whether a launch has several threads a block.
inline bool has_threads(const tree& t, int root) {
  bool found = false;
  for_each_inside(
      t, root, [&](int n) { found = found || (t[n].piece >= 0 && t.loop(t.origin(t[n].piece)).to == bind::threads); });
  return found;
}

namespace detail {

/// Whether a barrier is missing in a launch.
inline bool misses_barrier(const tree& t, int root) {
  bool found = false;
  pending_walk walk(t, [&](int, std::size_t) {
    found = true;
    return false;
  });
  walk.run(root);
  return found;
}

inline void insert_barriers(tree& t, int root) {
  pending_walk walk(t, [&](int parent, std::size_t at) {
    node n;
    n.what = act::barrier;
    const int made = t.add(std::move(n));
    series<int>& inside = t[parent].inside;
    inside.insert(inside.begin() + at, made);
    return true;
  });
  walk.run(root);
}

/// The first turn of a loop may have asked for barriers that those of the second make unnecessary.
inline void drop_barriers(tree& t, int root) {
  series<std::pair<int, int>> all;  // parent, barrier
  for_each_inside(t, root, [&](int n) {
    for (int c : t[n].inside)
      if (t[c].what == act::barrier) all.push_back({n, c});
  });
  for (std::size_t b = all.size(); b-- > 0;) {
    const series<int> was = t[all[b].first].inside;
    erase_if(t[all[b].first].inside, [&](int c) { return c == all[b].second; });
    if (misses_barrier(t, root)) t[all[b].first].inside = was;
  }
}

}  // namespace detail

/// Puts a barrier wherever one thread may meet what another wrote, or write what another still reads; none could be left away.
inline void place_barriers(tree& t) {
  for (const auto& l : t.launches) {
    if (!has_threads(t, l.root)) continue;
    detail::insert_barriers(t, l.root);
    detail::drop_barriers(t, l.root);
  }
}

}  // namespace sinter::engine::plan::loops
