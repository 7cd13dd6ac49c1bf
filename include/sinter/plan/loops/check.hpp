// plan/loops/check.hpp: the invariants of trees. Each failure is a sentence.
#pragma once

#include "../schedule/facts.hpp"
#include "fragments.hpp"
#include "tails.hpp"
#include "waits.hpp"

namespace sinter::engine::plan::loops {

namespace detail {

/// Walks a tree's statements in the order in which a thread meets them.
class checker {
 public:
  checker(const tree& t, const schedules::facts& f) : t_(t), k_(*t.code), facts_(f) {}

  std::string run() {
    dims();
    pieces();
    for (std::size_t l = 0; l < t_.launches.size() && why_.empty(); ++l) {
      filled_.clear();
      root_ = t_.launches[l].root;
      common_only_scratch();
      walk(root_);
      if (why_.empty()) races();
    }
    if (why_.empty()) stores();
    if (why_.empty()) memory();
    return why_;
  }

 private:
  static std::string value(int v) { return "v" + std::to_string(v); }
  std::string piece_name(int p) const { return loops::name(t_, p); }
  const tile& tile_at(int x) const { return t_.tiles[static_cast<std::size_t>(x)]; }
  void say(std::string why) {
    if (why_.empty()) why_ = std::move(why);
  }

  // 9: dims are over the size symbols of the kernel.
  void dims() {
    const auto known = [&](const dim& d) {
      for (int s = 0; s < 64; ++s) {
        if (!ir::depends_on(d, s)) continue;
        bool found = false;
        for (const auto& a : k_.axes) found = found || ir::depends_on(a.extent, s);
        if (!found) return false;
      }
      return true;
    };
    for (std::size_t p = 0; p < t_.pieces.size(); ++p)
      if (!known(t_.pieces[p].extent) || !known(t_.pieces[p].step))
        say("the extent of " + piece_name(static_cast<int>(p)) + " has a symbol that no axis has");
  }
  // 1: the steps of an axis's pieces follow each other.
  void pieces() {
    for (std::size_t p = 0; p < t_.pieces.size(); ++p) {
      const piece& q = t_.pieces[p];
      if (q.of >= 0) continue;
      bool begins = q.step.is(1), outermost = true;
      for (std::size_t o = 0; o < t_.pieces.size(); ++o) {
        const piece& other = t_.pieces[o];
        if (other.of >= 0 || other.axis != q.axis || o == p) continue;
        begins = begins || other.step * other.extent == q.step;
        outermost = outermost && !(other.step == q.step * q.extent);
      }
      if (!begins)
        say("the steps of " + piece_name(static_cast<int>(p)) + " do not follow those of another piece of its axis");
      const auto covered = (q.step * q.extent).number(),
                 whole = k_.axes[static_cast<std::size_t>(q.axis)].extent.number();
      if (outermost && covered && whole && *covered < *whole)
        say("the turns of " + piece_name(static_cast<int>(p)) + " end before axis " + std::to_string(q.axis) + " does");
    }
  }
  /// A later launch finds what earlier ones left in scratch memory.
  void common_only_scratch() {
    series<int> kept;
    for (int x : written_)
      if (tile_at(x).in == space::scratch && tile_at(x).at < 0) kept.push_back(x);
    written_ = std::move(kept);
  }

  bool is_open(int origin) const { return std::count(open_.begin(), open_.end(), origin) > 0; }
  bool has(const series<int>& all, int x) const { return std::count(all.begin(), all.end(), x) > 0; }

  void walk(int n) {
    if (!why_.empty()) return;
    const node& x = t_[n];
    if (x.what != act::loop) return statement(n);
    const int origin = x.piece < 0 ? -1 : t_.origin(x.piece);
    const bool again = origin >= 0 && is_open(origin);
    if (origin >= 0 && again && t_.loop(x.piece).part != turns::next && t_.loop(x.piece).of < 0)
      return say("the loop over " + piece_name(origin) + " is inside itself");
    if (origin >= 0) path_.push_back(x.piece);
    if (origin >= 0 && !again) open_.push_back(origin);
    for (int c : x.inside) walk(c);
    if (origin >= 0) path_.pop_back();
    if (origin < 0 || again) return;
    open_.pop_back();
    if (t_.loop(x.piece).part == turns::head) return;
    const auto ends = [&](int tile) { return tile_at(tile).at == origin; };
    erase_if(written_, ends);
    erase_if(filled_, ends);
    erase_if(asked_, ends);
    erase_if(arrived_, ends);
  }

  void statement(int n) {
    const node& x = t_[n];
    if (x.what == act::barrier) return barrier();
    if (x.what == act::wait) return wait(x);
    if (x.what == act::fill) {
      filled_.push_back(x.to);
      if (!has(written_, x.to)) written_.push_back(x.to);
      for (int q : open_)
        if ((axes_over(t_.at(x.value)) >> t_.loop(q).axis & 1u) && !is_outside(q, tile_at(x.to).at))
          say(value(x.value) + " starts anew in each turn of " + piece_name(q));
      return in_scope(x);
    }
    in_scope(x);
    covered(x);
    defined(x);
    if (x.what == act::merge || x.what == act::matrix) accumulates(x);
    if (x.what == act::matrix) intrinsic(x);
    if (x.what == act::merge && x.row >= 0) chain(x);
    if (x.what == act::store) stored_.push_back({x.value, path_});
    const int parts = x.what == act::merge || x.what == act::matrix ? count_of_parts(t_.at(x.value)) : 1;
    for (int p = 0; x.to >= 0 && p < parts; ++p)
      if (!has(written_, x.to + p)) written_.push_back(x.to + p);
    if (is_asked_for(x)) asks(x);
  }
  void asks(const node& x) {
    std::int64_t copies = 1;
    bool ahead = false;
    for (int p : path_)
      if (t_.origin(p) == tile_at(x.to).at) {
        if (t_.loop(p).ahead >= tile_at(x.to).slots && t_.loop(p).part == turns::next)
          say("copies of " + value(x.value) + " run " + std::to_string(t_.loop(p).ahead) + " turns ahead in " +
              std::to_string(tile_at(x.to).slots) + " slots");
        if (t_.loop(p).part == turns::head) copies = t_.loop(p).ahead;
        ahead = ahead || t_.loop(p).part == turns::next;
      }
    for (std::int64_t c = 0; c < copies; ++c) asked_.push_back(x.to);
    if (!ahead) erase_if(arrived_, [&](int t) { return t == x.to; });
  }
  bool is_asked(int tile) const {
    bool asked = false;
    for (const auto& n : t_.nodes) asked = asked || (is_asked_for(n) && n.to == tile);
    return asked;
  }

  // 1: the pieces of each axis cover it once; an overrun is guarded, peeled or padded.
  void covered(const node& x) {
    const std::uint32_t axes = axes_of_statement(t_, x);
    for (int a = 0; axes >> a; ++a) {
      if (!(axes >> a & 1u) || x.what == act::copy) continue;
      for (std::size_t p = 0; p < t_.pieces.size(); ++p) {
        const piece& q = t_.pieces[p];
        if (q.axis != a || q.of >= 0) continue;
        int count = is_open(static_cast<int>(p));
        for (int o : x.over) count += t_.origin(o) == static_cast<int>(p);
        if (count == 0)
          say(what(x) + " is in no loop over " + piece_name(static_cast<int>(p)) + ", along which it varies");
        if (count > 1) say(what(x) + " takes " + piece_name(static_cast<int>(p)) + " twice");
      }
    }
    overruns(x, axes);
  }
  void overruns(const node& x, std::uint32_t axes) {
    for (int a = 0; axes >> a; ++a) {
      if (!(axes >> a & 1u) || (x.guards >> a & 1u)) continue;
      for (std::size_t p = 0; p < t_.pieces.size(); ++p) {
        const piece& q = t_.pieces[p];
        if (q.axis != a || q.of >= 0 || q.rest == tail::none) continue;
        if (q.rest == tail::peel && x.what != act::copy && is_cut(static_cast<int>(p))) continue;
        if (q.rest == tail::pad && (x.what == act::merge || x.what == act::matrix) && x.tile < 0 &&
            terms_are_padded(t_, x, 1u << a))
          continue;
        say(what(x) + " may run beyond the end of axis " + std::to_string(a) +
            ": it has no guard, and no tile is padded");
      }
    }
  }
  /// Whether the loop over a peeled piece is one of its two parts.
  bool is_cut(int p) const {
    for (int q : path_)
      if (t_.origin(q) == p) return t_.loop(q).part == turns::full || t_.loop(q).part == turns::edge;
    return false;
  }
  std::string what(const node& x) const {
    return x.what == act::store ? "store " + std::to_string(x.value)
                                : std::string(text_of(x.what)) + " of " + value(x.value);
  }

  // 2: what is read is computed there, or is in a tile that was written.
  void in_scope(const node& x) {
    if (x.to >= 0 && tile_at(x.to).at >= 0 && !is_open(tile_at(x.to).at))
      say(what(x) + " writes a tile of the loop over " + piece_name(tile_at(x.to).at) + ", outside it");
  }
  void defined(const node& x) {
    for (int v : values_read(t_, x))
      if (visible_tile(t_, v, open_, x.to) < 0) say(what(x) + " reads " + value(v) + ", which is not defined there");
    for (int v : x.body)
      if (const kind k = t_.at(v).kind; k == kind::reduce || k == kind::part)
        say(what(x) + " computes " + value(v) + ", a reduction, at one position");
    for (const auto& u : uses_of(t_, x, open_)) {
      if (u.writes) {
        placed(x, u.tile);
        continue;
      }
      if (x.what != act::matrix) finished(x, u.tile);
      const tile& from = tile_at(u.tile);
      const int memory = t_.memory_of(u.tile);
      if (!has(written_, memory)) say(what(x) + " reads " + value(from.value) + " from a tile before it is written");
      if (is_asked(memory) && !has(arrived_, memory))
        say(what(x) + " reads " + value(from.value) + " from a copy that no wait has met");
      placed(x, u.tile);
    }
  }
  /// Sums of products that may still run are read behind their loop.
  void finished(const node& x, int tile) {
    for (const node& n : t_.nodes)
      if (n.what == act::matrix && n.to == tile)
        if (const int late = tile_behind(t_, n); late >= 0 && is_open(tile_at(late).at))
          say(what(x) + " reads " + value(n.value) + ", whose products run on in the loop over " +
              piece_name(tile_at(late).at));
  }
  /// A tile is read at a position along each of its sides.
  void placed(const node& x, int tile) {
    for (const auto& s : tile_at(tile).along) {
      if (s.piece >= 0) {
        if (!is_open(s.piece)) say(what(x) + " takes no part of the results of " + piece_name(s.piece));
        continue;
      }
      const dim inside = span_of_pieces(t_, s.axis, [&](int p) { return !is_outside(p, tile_at(tile).at); });
      if (!(inside == s.extent))
        say(what(x) + " has " + inside.text() + " positions along axis " + std::to_string(s.axis) + " for the " +
            s.extent.text() + " of a tile of " + value(tile_at(tile).value));
      if (x.what == act::copy) {
        bool along = false;
        for (const auto& mine : tile_at(x.to).along) along = along || mine.axis == s.axis;
        if (along) continue;
      }
      for (std::size_t p = 0; p < t_.pieces.size(); ++p) {
        const piece& q = t_.pieces[p];
        if (q.axis != s.axis || q.of >= 0 || is_outside(static_cast<int>(p), tile_at(tile).at)) continue;
        bool taken = is_open(static_cast<int>(p));
        for (int o : x.over) taken = taken || t_.origin(o) == static_cast<int>(p);
        if (!taken && x.what != act::copy)
          say(what(x) + " reads or writes " + value(tile_at(tile).value) + " at no turn of " +
              piece_name(static_cast<int>(p)));
      }
    }
    // A thread, or a block, has only what it made.
    private_to(x, tile);
  }
  bool is_outside(int p, int at) const {
    if (at < 0) return false;
    const auto of = std::find(open_.begin(), open_.end(), p), limit = std::find(open_.begin(), open_.end(), at);
    return of != open_.end() && of <= limit;
  }
  void private_to(const node& x, int tile) {
    const struct tile& from = tile_at(tile);
    if (from.in == space::scratch && from.at < 0) return;
    for (int q : open_) {
      const bind to = t_.loop(q).to;
      if (to == bind::grid && !is_outside(q, from.at) && t_.loop(q).axis >= 0 && varies(from, t_.loop(q).axis))
        say(what(x) + " shares a tile of " + value(from.value) + " among the blocks of " + piece_name(q));
    }
  }
  static bool varies(const tile& x, int axis) {
    for (const auto& s : x.along)
      if (s.axis == axis && s.piece < 0) return true;
    return false;
  }

  // 3: an accumulator starts outside its loops, and its terms keep their order.
  void accumulates(const node& x) {
    const int parts = count_of_parts(t_.at(x.value));
    for (int p = 0; p < parts; ++p)
      if (!has(filled_, x.to + p)) say(what(x) + " goes into a tile that was not filled with what changes nothing");
    if (x.tile >= 0) return;
    const std::uint32_t over = axes_over(t_.at(x.value));
    series<int> order;
    for (int q : open_)
      if (over >> t_.loop(q).axis & 1u) order.push_back(q);
    for (int q : order)
      if (is_outside(q, tile_at(x.to).at) && !is_shared_launch(x, q))
        say(value(x.value) + " starts anew in each turn of " + piece_name(q));
    for (int q : x.over)
      if (over >> t_.loop(q).axis & 1u) order.push_back(t_.origin(q));
    for (const auto& f : t_.folds) {
      if (f.value != x.value) continue;
      series<int> mine;
      for (int q : order)
        if (!is_outside(q, tile_at(x.to).at)) mine.push_back(q);
      series<int> sorted = mine, wanted = f.order;
      std::sort(sorted.begin(), sorted.end());
      std::sort(wanted.begin(), wanted.end());
      if (sorted != wanted || (x.over.empty() && mine != f.order))
        say("the terms of " + value(x.value) + " are added in another order than its fold says");
    }
  }
  /// Whether another launch merges what the turns of q leave.
  bool is_shared_launch(const node& x, int q) const {
    for (const auto& n : t_.nodes)
      if (n.what == act::define && n.value == x.value && n.tile >= 0 && tile_at(n.to).in == space::scratch)
        for (const auto& s : tile_at(n.to).along)
          if (s.piece == q) return true;
    return false;
  }

  // 4: each position is stored once.
  void stores() {
    for (std::size_t s = 0; s < k_.stores.size(); ++s) {
      series<series<int>> mine;
      for (const auto& [store, path] : stored_)
        if (store == static_cast<int>(s)) mine.push_back(path);
      if (mine.empty()) say("store " + std::to_string(s) + " is nowhere");
      for (std::size_t a = 0; a < mine.size(); ++a)
        for (std::size_t b = a + 1; b < mine.size(); ++b)
          if (!are_apart(mine[a], mine[b])) say("store " + std::to_string(s) + " stores a position twice");
      node n;
      n.what = act::store;
      n.value = static_cast<int>(s);
      for (const auto& path : mine)
        for (int q : path)
          if (!(axes_of_statement(t_, n) >> t_.loop(q).axis & 1u) && t_.loop(q).to != bind::grid &&
              t_.loop(q).to != bind::threads)
            say("store " + std::to_string(s) + " is inside the loop over " + piece_name(q) +
                ", along which it does not vary");
    }
  }
  /// Whether two paths take different turns of a peeled piece.
  bool are_apart(const series<int>& a, const series<int>& b) const {
    for (int p : a)
      for (int q : b)
        if (t_.origin(p) == t_.origin(q) && p != q && t_.loop(p).part != turns::all && t_.loop(q).part != turns::all)
          return true;
    return false;
  }

  // 5: between a write and another thread's read lies a barrier, or a wait.
  void wait(const node& x) {
    const tile& of = tile_at(x.tile);
    if (x.lag >= of.slots)
      say("a wait lets " + std::to_string(x.lag) + " copies of " + value(of.value) + " fly, which has " +
          std::to_string(of.slots) + " slots");
    const auto asked = std::count(asked_.begin(), asked_.end(), x.tile);
    if (asked <= x.lag) return;
    arrived_.push_back(x.tile);
    asked_.erase(std::find(asked_.begin(), asked_.end(), x.tile));
  }
  void races() {
    if (!has_threads(t_, root_)) return;
    pending_walk walk(t_, [&](int parent, std::size_t at) {
      const node& x = t_[t_[parent].inside[at]];
      const std::string who = x.what == act::loop ? "the loop over " + piece_name(x.piece) : what(x);
      say(who + " meets what other threads write or read since the last barrier");
      return false;
    });
    walk.run(root_);
  }

  // 6: all threads meet the same barriers.
  void barrier() {
    for (int p : path_) {
      const piece& q = t_.loop(p);
      if (q.to == bind::threads &&
          (q.part == turns::full || q.part == turns::edge || !(q.extent == t_.loop(t_.origin(p)).extent)))
        say("a barrier lies inside a part of the loop over " + piece_name(p) + ", which not all threads enter");
      for (const auto* bounds : {&q.low, &q.high})
        for (const auto& b : *bounds)
          for (std::size_t o = 0; o < t_.pieces.size(); ++o)
            if (t_.pieces[o].to == bind::threads && is_open(static_cast<int>(o)) && t_.pieces[o].of < 0 &&
                (t_.pieces[o].axis == q.axis || !b.stride[static_cast<std::size_t>(t_.pieces[o].axis)].is(0)))
              say("a barrier lies inside the loop over " + piece_name(p) + ", whose turns differ among the threads");
    }
  }

  // 7: intrinsics have whole operands, as they take them.
  void intrinsic(const node& x) {
    const auto all = schedules::intrinsics();
    if (x.row < 0 || x.row >= static_cast<int>(all.size())) return say(what(x) + " names no intrinsic");
    const auto& i = all[static_cast<std::size_t>(x.row)];
    const auto c = contraction_of(k_, x.value);
    if (!c) return say(what(x) + " is no contraction");
    dim m = 1, n = 1, k = 1;
    for (int p : x.over) {
      const int a = t_.loop(p).axis;
      if (has(c->m, a)) m *= t_.loop(p).extent;
      else if (has(c->n, a)) n *= t_.loop(p).extent;
      else if (has(c->k, a)) k *= t_.loop(p).extent;
      else say(what(x) + " has the batch axis " + std::to_string(a) + " in an intrinsic");
    }
    const auto whole = [](const dim& d, int by) { return d.divided_by(by).has_value(); };
    if (!whole(m, i.m) || !whole(n, i.n) || !whole(k, i.k))
      say(what(x) + " by " + i.word + " takes " + m.text() + " x " + n.text() + " x " + k.text() +
          ", which are no multiples of " + std::to_string(i.m) + " x " + std::to_string(i.n) + " x " +
          std::to_string(i.k));
    operand(x, c->x, 0, i.x, i);
    operand(x, c->y, 1, i.y, i);
    if (i.who == schedules::scope::group) group(x, c->m, i);
    if (const tile& sum = tile_at(x.to); sum.row != x.row || sum.operand != 2)
      say(what(x) + " by " + i.word + " adds to a tile that is not its sum");
    if (facts_.has && !facts_.has(i.needs)) say(what(x) + " by " + i.word + " needs " + i.needs);
  }
  /// The threads of a block are groups, whose warps follow each other in the intrinsic's rows.
  void group(const node& x, const series<int>& rows, const schedules::intrinsic& i) {
    series<int> warps;
    for (int p : open_)
      if (t_.loop(p).to == bind::threads) warps.push_back(p);
    if (warps.size() != 1 || !has(rows, t_.loop(warps[0]).axis) || !t_.loop(warps[0]).step.is(i.m) ||
        !t_.loop(warps[0]).extent.divided_by(schedules::warps_of_group))
      say(what(x) + " by " + i.word + " takes the rows of four warps, which follow each other");
  }
  /// A weighted merge by an intrinsic: the weights of its block are its left operand as the scores lie.
  void chain(const node& x) {
    const auto all = schedules::intrinsics();
    if (x.row >= static_cast<int>(all.size())) return say(what(x) + " names no intrinsic");
    const auto& i = all[static_cast<std::size_t>(x.row)];
    const auto axes = axes_of_matrix(t_, x);
    if (!axes) return say(what(x) + " has no sums along further axes for an intrinsic");
    if (i.who == schedules::scope::group) group(x, axes->m, i);
    const int score = score_of(t_, x, open_);
    if (score < 0 || tile_at(score).row != x.row || tile_at(score).operand != 2)
      return say(what(x) + " by " + i.word + " takes weights of what another intrinsic made");
    if (!schedules::chains(i.fs, i.fx, i.n))
      say(what(x) + " by " + i.word + " multiplies weights, whose lanes are not those of its left operand");
    dim m = 1, n = 1, k = 1;
    for (int p : x.over) {
      const int a = t_.loop(p).axis;
      if (has(axes->m, a)) m *= t_.loop(p).extent;
      else if (has(axes->n, a)) n *= t_.loop(p).extent;
      else if (has(axes->k, a)) k *= t_.loop(p).extent;
    }
    if (!m.divided_by(i.m) || !n.divided_by(i.n) || !k.divided_by(i.k))
      say(what(x) + " by " + i.word + " takes " + m.text() + " x " + n.text() + " x " + k.text() +
          ", which are no multiples of " + std::to_string(i.m) + " x " + std::to_string(i.n) + " x " +
          std::to_string(i.k));
    for (int p = 1; p < count_of_parts(t_.at(x.value)); ++p) {
      const auto c = contraction_of_part(k_, x.value, static_cast<std::size_t>(p));
      if (!c) continue;
      const tile& sum = tile_at(x.to + p);
      if (sum.row != x.row || sum.operand != 2) say(what(x) + " by " + i.word + " adds to a tile that is not its sum");
      const int v = unwidened(k_, c->y), from = visible_tile(t_, v, open_);
      if (t_.at(v).type != i.y)
        say(what(x) + " by " + i.word + " takes " + dtype_name(i.y) + ", not " + dtype_name(t_.at(v).type));
      if (from < 0 || tile_at(from).in != space::shared)
        say(what(x) + " by " + i.word + " takes " + value(v) + " from shared memory");
    }
    if (facts_.has && !facts_.has(i.needs)) say(what(x) + " by " + i.word + " needs " + i.needs);
  }
  void operand(const node& x, int v, int number, dtype want, const schedules::intrinsic& i) {
    const dtype type = t_.at(unwidened(k_, v)).type;
    int from = visible_tile(t_, v, open_);
    if (from < 0) from = visible_tile(t_, unwidened(k_, v), open_);
    if (type != want && t_.at(v).type != want && (from < 0 || tile_at(from).type != want))
      say(what(x) + " by " + i.word + " takes " + dtype_name(want) + ", not " + dtype_name(type));
    if (i.who == schedules::scope::group &&
        (from < 0 || tile_at(from).in == space::stack || (number == 1 && tile_at(from).in != space::shared)))
      say(what(x) + " by " + i.word + " takes " + value(v) + " from shared memory");
    if (from < 0) return;
    const tile& tile = tile_at(from);
    if (tile.in == space::registers && (tile.row != x.row || tile.operand != number))
      say(what(x) + " by " + i.word + " reads " + value(v) + " from registers that lie otherwise");
    if (number == 1 && i.y_as == layout::vnni && tile.as != layout::vnni && tile.in != space::registers)
      say(what(x) + " by " + i.word + " takes y as vnni, and " + value(v) + " lies as " + text_of(tile.as));
  }

  // 8: memory suffices.
  void memory() {
    std::int64_t shared = 0, stack = 0;
    for (const auto& x : t_.tiles) {
      if (x.memory >= 0) continue;
      dim elements = 1;
      for (const auto& s : x.along) elements *= s.extent;
      const auto n = elements.number();
      const std::int64_t bytes = n ? *n * static_cast<std::int64_t>(size_of(x.type)) * x.slots : 0;
      if (!n && x.in != space::scratch && facts_.bounded())
        say("a tile of " + value(x.value) + " in " + text_of(x.in) + " has no fixed size");
      if (x.in == space::shared) shared += bytes;
      if (x.in == space::stack) stack += bytes;
    }
    std::int64_t registers = 0;
    for (const auto& l : t_.launches) registers = std::max(registers, registers_inside(l.root));
    if (shared > facts_.shared_bytes)
      say("its tiles take " + std::to_string(shared) + " bytes of shared memory, of " +
          std::to_string(facts_.shared_bytes));
    if (stack > facts_.stack_bytes)
      say("its tiles take " + std::to_string(stack) + " bytes of the stack, of " + std::to_string(facts_.stack_bytes));
    if (registers > facts_.register_bytes)
      say("its tiles take " + std::to_string(registers) + " bytes of a thread's registers, of " +
          std::to_string(facts_.register_bytes));
  }
  /// The bytes of a thread's registers that the statements at n need at once: loops one after another have them in turn.
  std::int64_t registers_inside(int n) const {
    const int origin = t_[n].what == act::loop && t_[n].piece >= 0 ? t_.origin(t_[n].piece) : -1;
    std::int64_t own = 0, inner = 0;
    for (int c : t_[n].inside) inner = std::max(inner, registers_inside(c));
    for (std::size_t x = 0; t_[n].what == act::loop && x < t_.tiles.size(); ++x)
      if (const tile& one = t_.tiles[x];
          one.in == space::registers && one.at == origin && is_written(n, static_cast<int>(x)))
        own += bytes_of_thread(one);
    return own + inner;
  }
  bool is_written(int from, int tile) const {
    bool found = false;
    for_each_inside(t_, from, [&](int n) {
      const int parts = t_[n].what == act::merge ? count_of_parts(t_.at(t_[n].value)) : 1;
      found = found || (t_[n].to >= 0 && tile >= t_[n].to && tile < t_[n].to + parts);
    });
    return found;
  }
  std::int64_t bytes_of_thread(const tile& x) const {
    dim elements = 1;
    for (const auto& s : x.along) elements *= s.extent;
    const auto n = elements.number();
    return n ? *n * static_cast<std::int64_t>(size_of(x.type)) / std::max<std::int64_t>(1, threads_inside(x)) : 0;
  }
  /// The threads among which a private tile's positions are divided.
  std::int64_t threads_inside(const tile& x) const {
    std::int64_t n =
        x.row >= 0 ? schedules::operand_of(schedules::intrinsics()[static_cast<std::size_t>(x.row)], x.operand).width()
                   : 1;
    if (x.row >= 0 && schedules::intrinsics()[static_cast<std::size_t>(x.row)].who == schedules::scope::thread) n = 1;
    // One side of a fragment: each row, or column, is in a quarter of the lanes, or in an eighth.
    if (x.row < 0 && x.in == space::registers)
      for (std::size_t p = 0; p < t_.pieces.size(); ++p)
        if (t_.pieces[p].of < 0 && t_.pieces[p].to == bind::matrix && varies(x, t_.pieces[p].axis) &&
            facts_.threads > 0) {
          n = 8;
          break;
        }
    for (std::size_t p = 0; p < t_.pieces.size(); ++p)
      if (t_.pieces[p].of < 0 && t_.pieces[p].to == bind::threads && varies(x, t_.pieces[p].axis) &&
          static_cast<int>(p) != x.at)
        n *= t_.pieces[p].extent.number().value_or(1);
    return n;
  }

  const tree& t_;
  const kernel& k_;
  const schedules::facts& facts_;
  std::string why_;
  int root_ = 0;
  series<int> open_, path_, written_, filled_, asked_, arrived_;
  series<std::pair<int, series<int>>> stored_;
};

}  // namespace detail

/// The first invariant that a tree breaks, as a sentence; empty: none.
inline std::string check(const tree& t, const schedules::facts& f = {}) { return detail::checker(t, f).run(); }

}  // namespace sinter::engine::plan::loops
