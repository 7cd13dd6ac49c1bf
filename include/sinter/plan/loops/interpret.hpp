// plan/loops/interpret.hpp: runs a tree exactly, a thread at a time: what was not written, has not arrived or may be another thread's is
// an error.
#pragma once

#include "fragments.hpp"
#include "scalars.hpp"

namespace sinter::engine::plan::loops {

/// A kernel's memory: the elements of each buffer.
using memory = series<series<scalar>>;

namespace detail {

/// A fault of a tree, as a sentence.
struct fault {
  std::string what;
};
[[noreturn]] inline void fail(std::string what) { throw fault{std::move(what)}; }

/// Numbers drawn from a seed. Sebastiano Vigna: "splitmix64.c" (2015), in the public domain.
struct draws {
  std::uint64_t state;
  std::size_t below(std::size_t n) {
    std::uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return static_cast<std::size_t>((z ^ z >> 31) % n);
  }
  /// 0 to n - 1 in any order.
  std::vector<std::size_t> order(std::size_t n) {
    std::vector<std::size_t> out(n);
    for (std::size_t i = 0; i < n; ++i) out[i] = i;
    for (std::size_t i = n; i > 1; --i) std::swap(out[i - 1], out[below(i)]);
    return out;
  }
};

/// An element of a tile.
struct cell {
  scalar x{};
  bool written = false;
  int writer = -1, written_at = -1;  ///< a thread, between two barriers
  int reader = -1, read_at = -1;     ///< -2: several
};

/// Elements that an asynchronous copy brings when its thread waits.
struct flight {
  series<std::pair<std::size_t, scalar>> cells;
};

/// The shape of a tile for one set of sizes.
struct extents_of_tile {
  series<std::int64_t> extents;
  std::size_t count = 1;        ///< of a slot
  int rows = -1, columns = -1;  ///< a fragment's: sides
  std::int64_t high = 1, wide = 1;
  series<int> place;  ///< row · wide + column -> lane · registers + register
  int registers = 1;
};

class interpreter {
 public:
  interpreter(const tree& t, std::span<const std::int64_t> sizes, memory& m, std::uint64_t seed)
      : t_(t), k_(*t.code), sizes_(sizes), memory_(m), random_{seed} {
    for (const auto& p : t.pieces) {
      extents_.push_back(p.extent.evaluate(sizes));
      steps_.push_back(p.step.evaluate(sizes));
    }
    for (const auto& a : k_.axes) lengths_.push_back(a.extent.evaluate(sizes));
    for (std::size_t x = 0; x < t.tiles.size(); ++x) shapes_.push_back(shape_of(t.tiles[x]));
    for (std::size_t s = 0; s < k_.stores.size(); ++s)
      stored_.push_back(series<char>(memory_[static_cast<std::size_t>(k_.stores[s].at.buffer)].size(), 0));
    common_.resize(t.tiles.size());
    visible_.resize(t.nodes.size());
    memo_.resize(k_.body.size());
    stamps_.assign(k_.body.size(), -1);
    shift_.assign(k_.axes.size(), 0);
  }

  void run() {
    for (std::size_t l = 0; l < t_.launches.size(); ++l) {
      launch_ = static_cast<int>(l);
      run_launch(t_.launches[l].root);
    }
  }

 private:
  static std::string name(int v) { return "v" + std::to_string(v); }
  const tile& tile_at(int x) const { return t_.tiles[static_cast<std::size_t>(x)]; }
  std::int64_t extent(int p) const { return extents_[static_cast<std::size_t>(p)]; }
  std::int64_t step(int p) const { return steps_[static_cast<std::size_t>(p)]; }
  std::int64_t& index(int p) { return (*index_)[static_cast<std::size_t>(p)]; }

  // --- shapes

  extents_of_tile shape_of(const tile& x) {
    extents_of_tile s;
    for (const auto& side : x.along) s.extents.push_back(side.extent.evaluate(sizes_));
    if (x.row >= 0) hold(x, s);
    for (std::size_t d = 0; d < s.extents.size(); ++d) {
      std::int64_t n = s.extents[d];
      if (static_cast<int>(d) == s.rows) n = (n + s.high - 1) / s.high;
      if (static_cast<int>(d) == s.columns) n = (n + s.wide - 1) / s.wide;
      s.count *= static_cast<std::size_t>(n);
    }
    s.count *= s.place.empty() ? 1 : s.place.size();
    return s;
  }
  std::size_t fragment_size(int x) const { return shapes_[static_cast<std::size_t>(x)].place.size(); }
  /// The sides that an intrinsic takes as rows and columns, and which lane has which element.
  void hold(const tile& x, extents_of_tile& s) {
    const schedules::fragment* f =
        &schedules::operand_of(schedules::intrinsics()[static_cast<std::size_t>(x.row)], x.operand);
    for (const auto& n : t_.nodes) {
      const auto c = n.row == x.row ? axes_of_matrix(t_, n) : std::nullopt;
      if (!c || (x.operand != 2 && operand_of_matrix(t_, n.value, x.value) != x.operand)) continue;
      const auto side = [&](const series<int>& axes) {
        for (int p : n.over)
          for (std::size_t d = 0; d < x.along.size(); ++d)
            if (x.along[d].piece < 0 && x.along[d].axis == t_.loop(p).axis &&
                std::count(axes.begin(), axes.end(), x.along[d].axis))
              return static_cast<int>(d);
        return -1;
      };
      const int rows = side(x.operand == 1 ? c->k : c->m), columns = side(x.operand == 0 ? c->k : c->n);
      if (rows < 0 || columns < 0) continue;
      s.rows = rows, s.columns = columns;
      for (int p : n.over)
        if (t_.loop(p).axis == x.along[static_cast<std::size_t>(columns)].axis && t_.loop(p).to == bind::matrix)
          f = lanes_of(t_, x.row, x.operand, p);
      break;
    }
    const auto& i = schedules::intrinsics()[static_cast<std::size_t>(x.row)];
    s.high = x.operand == 1 ? i.k : i.m;
    s.registers = f->count();
    s.wide = s.registers * f->width() / s.high;
    s.place.assign(static_cast<std::size_t>(s.high * s.wide), -1);
    for (int lane = 0; lane < f->width(); ++lane)
      for (int r = 0; r < f->count(); ++r) {
        const int e = f->element(lane, r);
        s.place[static_cast<std::size_t>((e >> 8) * s.wide + (e & 255))] = lane * f->count() + r;
      }
  }

  // --- launches, blocks, threads

  void run_launch(int root) {
    grid_.clear(), threads_.clear();
    for_each_inside(t_, root, [&](int n) {
      if (t_[n].piece < 0) return;
      const int p = t_.origin(t_[n].piece);
      auto* list = t_.loop(p).to == bind::grid && t_.loop(t_[n].piece).to == bind::grid         ? &grid_
                   : t_.loop(p).to == bind::threads && t_.loop(t_[n].piece).to == bind::threads ? &threads_
                                                                                                : nullptr;
      if (list && !std::count(list->begin(), list->end(), p)) list->push_back(p);
    });
    std::int64_t blocks = 1, threads = 1;
    for (int p : grid_) blocks *= width(p);
    for (int p : threads_) threads *= width(p);
    for (auto b : random_.order(static_cast<std::size_t>(blocks)))
      run_block(root, static_cast<std::int64_t>(b), threads);
  }

  /// The blocks or threads along a piece: one, if there is nothing to do.
  std::int64_t width(int p) const { return std::max<std::int64_t>(1, extent(p)); }

  void run_block(int root, std::int64_t block, std::int64_t threads) {
    block_ = static_cast<int>(block);
    indices_.assign(static_cast<std::size_t>(threads), series<std::int64_t>(t_.pieces.size(), 0));
    digits_.assign(static_cast<std::size_t>(threads), series<std::int64_t>(t_.pieces.size(), 0));
    for (std::int64_t a = 0; a < threads; ++a) {
      std::int64_t rest = block, mine = a;
      for (int p : grid_)
        digits_[static_cast<std::size_t>(a)][static_cast<std::size_t>(p)] = rest % width(p), rest /= width(p);
      for (int p : threads_)
        digits_[static_cast<std::size_t>(a)][static_cast<std::size_t>(p)] = mine % width(p), mine /= width(p);
    }
    private_.assign(static_cast<std::size_t>(threads), series<series<cell>>(t_.tiles.size()));
    flights_.assign(static_cast<std::size_t>(threads), series<series<flight>>(t_.tiles.size()));
    for (std::size_t x = 0; x < t_.tiles.size(); ++x)
      if (!is_global(t_.tiles[x])) common_[x].clear();
    epoch_ = 0;
    together({root});
  }
  static bool is_global(const tile& x) { return x.in == space::scratch && x.at < 0; }

  void take(std::size_t a) {
    thread_ = static_cast<int>(a);
    index_ = &indices_[a];
  }
  bool has_barrier(int n) const {
    bool found = false;
    for_each_inside(t_, n, [&](int c) { found = found || t_[c].what == act::barrier; });
    return found;
  }

  /// Statements of all threads: between barriers the threads run in random order.
  void together(const series<int>& statements) {
    series<int> until;
    const auto flush = [&] {
      for (auto a : random_.order(indices_.size())) {
        take(a);
        for (int n : until) alone(n);
      }
      until.clear();
    };
    for (int n : statements) {
      if (!has_barrier(n)) {
        until.push_back(n);
        continue;
      }
      flush();
      if (t_[n].what == act::barrier) ++epoch_;
      else loop_together(n);
    }
    flush();
  }

  /// The turns of a loop: from, to, and whether a thread takes only its own.
  struct range_of_turns {
    std::int64_t from = 0, to = 0;
    bool empty = false;  ///< copies are asked for, of nothing
    bool operator==(const range_of_turns&) const = default;
  };
  std::int64_t bound_of(const affine& at) {
    std::int64_t n = at.offset.evaluate(sizes_);
    for (std::size_t a = 0; a < at.stride.size(); ++a)
      if (const auto s = at.stride[a].evaluate(sizes_)) n += s * position(static_cast<int>(a));
    if (at.index >= 0) n += at.indirect.evaluate(sizes_) * uniform(at.index).i;
    return n;
  }
  static std::int64_t floor_of(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
  range_of_turns turns_of(int p) {
    const piece& x = t_.loop(p);
    const int origin = t_.origin(p);
    range_of_turns r{0, extent(p), false};
    if (!x.low.empty() || !x.high.empty()) {
      const std::int64_t base = position_without(x.axis, origin);
      for (const auto& l : x.low) r.from = std::max(r.from, floor_of(bound_of(l) - base, step(p)));
      for (const auto& h : x.high) r.to = std::min(r.to, -floor_of(-(bound_of(h) - base), step(p)));
    }
    if (x.part == turns::full) r.to = std::min(r.to, lengths_[static_cast<std::size_t>(x.axis)] / step(p));
    if (x.part == turns::edge) {
      const std::int64_t whole = lengths_[static_cast<std::size_t>(x.axis)] / step(p);
      r.from = std::max(r.from, whole);
      r.to = lengths_[static_cast<std::size_t>(x.axis)] % step(p) ? std::min(r.to, whole + 1) : r.from;
    }
    if (x.part == turns::next) {
      const std::int64_t turn = index(origin) + x.ahead;
      return {turn, turn + 1, turn >= r.to};
    }
    if (x.part == turns::head) return {r.from, r.from + x.ahead, r.from + x.ahead > r.to};
    if (x.to == bind::grid || x.to == bind::threads) {
      const std::int64_t mine = digits_[static_cast<std::size_t>(thread_)][static_cast<std::size_t>(origin)];
      const bool in = mine >= r.from && mine < r.to;
      return {in ? mine : 0, in ? mine + 1 : 0, false};
    }
    return r;
  }
  std::int64_t position_without(int axis, int p) {
    std::int64_t n = 0;
    for (int q : open_)
      if (q != p && t_.loop(q).axis == axis) n += index(q) * step(q);
    return n;
  }

  /// Opens a loop: a loop that is open already takes another turn.
  struct opened {
    bool again = false;
    std::int64_t was = 0;
  };
  opened open(int origin) {
    opened o;
    o.again = std::count(open_.begin(), open_.end(), origin) > 0;
    if (o.again) o.was = index(origin);
    else open_.push_back(origin);
    return o;
  }
  void close(int origin, const opened& o) {
    if (o.again) index(origin) = o.was;
    else open_.pop_back();
  }

  void loop_together(int n) {
    const int p = t_[n].piece;
    if (p < 0) return together(t_[n].inside);
    const int origin = t_.origin(p);
    std::vector<range_of_turns> all;
    for (std::size_t a = 0; a < indices_.size(); ++a) {
      take(a);
      all.push_back(turns_of(p));
    }
    const bool own = t_.loop(p).to == bind::threads;
    for (const auto& r : all)
      if (own ? r.to - r.from != all[0].to - all[0].from : !(r == all[0]))
        fail("a barrier lies inside the loop over " + loops::name(t_, p) + ", whose turns differ among the threads");
    std::vector<std::int64_t> was;
    for (std::size_t a = 0; a < indices_.size(); ++a) was.push_back(indices_[a][static_cast<std::size_t>(origin)]);
    const bool again = std::count(open_.begin(), open_.end(), origin) > 0;
    if (!again) open_.push_back(origin);
    for (std::int64_t i = 0; i < all[0].to - all[0].from; ++i) {
      const bool nothing = all[0].empty && beyond(p, all[0].from + i);
      for (std::size_t a = 0; a < indices_.size(); ++a) indices_[a][static_cast<std::size_t>(origin)] = all[a].from + i;
      if (!nothing) together(t_[n].inside);
    }
    if (!again) open_.pop_back();
    for (std::size_t a = 0; a < indices_.size(); ++a) indices_[a][static_cast<std::size_t>(origin)] = was[a];
  }
  /// Whether a turn of a loop that runs ahead is none.
  bool beyond(int p, std::int64_t turn) {
    const piece& x = t_.loop(p);
    std::int64_t to = extent(p);
    for (const auto& h : x.high)
      to = std::min(to, -floor_of(-(bound_of(h) - position_without(x.axis, t_.origin(p))), step(p)));
    return turn >= to;
  }

  /// A statement of one thread.
  void alone(int n) {
    const node& x = t_[n];
    if (x.what != act::loop) return statement(n);
    if (x.piece < 0) {
      for (int c : x.inside) alone(c);
      return;
    }
    const int origin = t_.origin(x.piece);
    const range_of_turns r = turns_of(x.piece);
    const opened o = open(origin);
    for (std::int64_t i = r.from; i < r.to; ++i) {
      index(origin) = i;
      const bool nothing = r.empty && beyond(x.piece, i);
      for (int c : x.inside)
        if (!nothing) alone(c);
        else if (t_[c].what == act::copy) flights_of(t_[c].to).push_back({});
    }
    close(origin, o);
  }
  series<flight>& flights_of(int x) { return flights_[static_cast<std::size_t>(thread_)][static_cast<std::size_t>(x)]; }

  void statement(int n) {
    node_ = n;
    const node& x = t_[n];
    switch (x.what) {
      case act::fill:
        return fill(x);
      case act::define:
        return define(x);
      case act::copy:
        return copy(x);
      case act::matrix:
        return matrix(x);
      case act::merge:
        return merge(x);
      case act::store:
        return store_value(x);
      case act::wait:
        return wait(x);
      case act::barrier:
      case act::loop:
        return;
    }
  }

  // --- positions, guards, owners

  std::int64_t position(int axis) {
    std::int64_t n = shift_[static_cast<std::size_t>(axis)];
    for (int p : open_)
      if (t_.loop(p).axis == axis) n += index(p) * step(p);
    return n;
  }
  bool is_beyond(std::uint32_t axes) {
    for (int a = 0; axes >> a; ++a)
      if ((axes >> a & 1u) && position(a) >= lengths_[static_cast<std::size_t>(a)]) return true;
    return false;
  }
  /// Of threads, and of blocks, that would do the same, the first does it.
  bool is_first(const series<int>& pieces) {
    for (int p : pieces)
      if (!std::count(open_.begin(), open_.end(), p) &&
          digits_[static_cast<std::size_t>(thread_)][static_cast<std::size_t>(p)] != 0)
        return false;
    return true;
  }

  // --- cells

  series<cell>& cells(int x) {
    x = t_.memory_of(x);
    const tile& tile = tile_at(x);
    auto& all = is_common(tile) ? common_[static_cast<std::size_t>(x)]
                                : private_[static_cast<std::size_t>(thread_)][static_cast<std::size_t>(x)];
    if (all.empty()) all.resize(shapes_[static_cast<std::size_t>(x)].count * static_cast<std::size_t>(tile.slots));
    return all;
  }
  std::int64_t coordinate(const tile& tile, const side& side) {
    if (side.piece >= 0) return index(side.piece);
    std::int64_t c = shift_[static_cast<std::size_t>(side.axis)];
    const auto begin = tile.at < 0 ? open_.begin() : std::find(open_.begin(), open_.end(), tile.at);
    for (const int* p = begin; p != open_.end(); ++p)
      if (*p != tile.at && t_.loop(*p).axis == side.axis) c += index(*p) * step(*p);
    return c;
  }
  /// The place of the open loops' position in a tile.
  std::size_t place(int x) {
    const tile& tile = tile_at(x);
    const auto& s = shapes_[static_cast<std::size_t>(x)];
    std::size_t at = 0;
    std::int64_t row = 0, column = 0;
    for (std::size_t d = 0; d < tile.along.size(); ++d) {
      const side& side = tile.along[d];
      std::int64_t c = coordinate(tile, side);
      if (c < 0 || c >= s.extents[d])
        fail(text_of_use() + " leaves the tile of " + name(tile.value) + " along axis " + std::to_string(side.axis));
      std::int64_t n = s.extents[d];
      if (static_cast<int>(d) == s.rows) row = c % s.high, c /= s.high, n = (n + s.high - 1) / s.high;
      if (static_cast<int>(d) == s.columns) column = c % s.wide, c /= s.wide, n = (n + s.wide - 1) / s.wide;
      at = at * static_cast<std::size_t>(n) + static_cast<std::size_t>(c);
    }
    if (!s.place.empty())
      at = at * s.place.size() + static_cast<std::size_t>(s.place[static_cast<std::size_t>(row * s.wide + column)]);
    if (tile.slots > 1) at += s.count * static_cast<std::size_t>(index(tile.at) % tile.slots);
    return at;
  }
  std::string text_of_use() const { return std::string(text_of(t_[node_].what)) + " of " + name(t_[node_].value); }

  scalar read(int x) { return read_at(x, place(x)); }
  scalar read_at(int x, std::size_t at) {
    cell& c = cells(x)[at];
    if (!c.written)
      fail(text_of_use() + " reads " + name(tile_at(x).value) + " from " + text_of(tile_at(x).in) +
           " before it is written");
    if (is_global(tile_at(x))) {
      if (c.written_at == launch_ && c.writer != block_)
        fail(text_of_use() + " reads what another block of the launch wrote");
      return c.x;
    }
    if (is_common(tile_at(x))) {
      if (c.written_at == epoch_ && c.writer != thread_)
        fail(text_of_use() + " reads " + name(tile_at(x).value) + ", which another thread wrote, without a barrier");
      c.reader = c.read_at == epoch_ && c.reader != thread_ ? -2 : thread_;
      c.read_at = epoch_;
    }
    return c.x;
  }
  cell& claim(int x, std::size_t at) {
    cell& c = cells(x)[at];
    if (is_global(tile_at(x))) {
      c.writer = block_;
      c.written_at = launch_;
    } else if (is_common(tile_at(x))) {
      if (c.read_at == epoch_ && c.reader != thread_)
        fail(text_of_use() + " overwrites " + name(tile_at(x).value) + " before its readers have passed a barrier");
      if (c.written_at == epoch_ && c.writer != thread_)
        fail(text_of_use() + " writes what another thread wrote since the last barrier");
      c.writer = thread_;
      c.written_at = epoch_;
    }
    return c;
  }
  void write(int x, scalar value) { write_at(x, place(x), value); }
  void write_at(int x, std::size_t at, scalar value) {
    cell& c = claim(x, at);
    c.x = rounded_for(x, value);
    c.written = true;
  }
  scalar rounded_for(int x, scalar value) const {
    const tile& tile = tile_at(x);
    return rounded(value, tile.accumulates ? computed_as(tile.type) : tile.type);
  }

  // --- values

  /// The tile in which the current statement finds a value; -1: it computes it.
  int source_of(int v) {
    auto& known = visible_[static_cast<std::size_t>(node_)];
    if (known.empty()) known.assign(k_.body.size(), -3);
    int& found = known[static_cast<std::size_t>(v)];
    if (found == -3) {
      const node& n = t_[node_];
      found = std::count(n.body.begin(), n.body.end(), v) ? -1 : visible_tile(t_, v, open_, n.to);
      if (found < 0 && !std::count(n.body.begin(), n.body.end(), v)) found = -2;
    }
    return found;
  }
  void next_point() { ++stamp_; }
  scalar value(int v) {
    const int x = source_of(v);
    if (x == -2) fail(text_of_use() + " reads " + name(v) + ", which is not defined there");
    if (x >= 0) {
      look_at_lane(x);
      return read(x);
    }
    if (stamps_[static_cast<std::size_t>(v)] == stamp_) return memo_[static_cast<std::size_t>(v)];
    const scalar r = computed(k_.body[static_cast<std::size_t>(v)]);
    memo_[static_cast<std::size_t>(v)] = r;
    stamps_[static_cast<std::size_t>(v)] = stamp_;
    return r;
  }
  /// A lane that makes an element of a fragment reads its own elements of others.
  void look_at_lane(int x) {
    const node& n = t_[node_];
    if (n.what != act::define || n.to < 0 || tile_at(n.to).row < 0 || tile_at(x).row < 0) return;
    const auto lane = [&](int tile) {
      const auto size = fragment_size(tile);
      return place(tile) % size / static_cast<std::size_t>(shapes_[static_cast<std::size_t>(tile)].registers);
    };
    if (lane(x) != lane(n.to)) fail(text_of_use() + " reads " + name(tile_at(x).value) + " from another lane");
  }
  std::int64_t at(const affine& a) {
    std::int64_t n = a.offset.evaluate(sizes_);
    for (std::size_t d = 0; d < a.stride.size(); ++d)
      if (const std::int64_t s = a.stride[d].evaluate(sizes_)) n += s * position(static_cast<int>(d));
    if (a.index >= 0) n += a.indirect.evaluate(sizes_) * value(a.index).i;
    return n;
  }
  scalar load(const instruction& i) {
    if (is_guarded(i) && !value(i.args[0]).i) return {};
    const auto& m = memory_[static_cast<std::size_t>(i.at.buffer)];
    const std::int64_t from = at(i.at.at);
    if (from < 0 || from >= static_cast<std::int64_t>(m.size()))
      fail(text_of_use() + " reads outside the memory of buffer " + std::to_string(i.at.buffer));
    return m[static_cast<std::size_t>(from)];
  }
  scalar computed(const instruction& i) {
    switch (i.kind) {
      case kind::literal:
        return is_float(i.type) ? scalar{i.literal.f, 0} : scalar{0, i.literal.i};
      case kind::position:
        return {0, at(i.at.at)};
      case kind::inside: {
        bool in = true;
        for (const auto& r : i.ranges) {
          const std::int64_t n = at(r.at);
          in = in && n >= 0 && n < r.extent.evaluate(sizes_);
        }
        return {0, in};
      }
      case kind::load:
        return load(i);
      case kind::compute: {
        series<scalar> args;
        series<dtype> types;
        for (int a : i.args) args.push_back(value(a)), types.push_back(k_.body[static_cast<std::size_t>(a)].type);
        return pointwise(i.code, i.type, args, types);
      }
      default:
        fail(text_of_use() + " computes a reduction at one position");
    }
  }
  /// A value that varies along no axis, before all loops.
  scalar uniform(int v) {
    const instruction& i = k_.body[static_cast<std::size_t>(v)];
    if (i.kind == kind::load) {
      std::int64_t from = i.at.at.offset.evaluate(sizes_);
      for (std::size_t d = 0; d < i.at.at.stride.size(); ++d)
        if (const std::int64_t s = i.at.at.stride[d].evaluate(sizes_)) from += s * position(static_cast<int>(d));
      return memory_[static_cast<std::size_t>(i.at.buffer)][static_cast<std::size_t>(from)];
    }
    if (i.kind == kind::literal) return i.literal;
    if (i.kind != kind::compute) fail("a bound of a loop is no loaded number");
    series<scalar> args;
    series<dtype> types;
    for (int a : i.args) args.push_back(uniform(a)), types.push_back(k_.body[static_cast<std::size_t>(a)].type);
    return pointwise(i.code, i.type, args, types);
  }

  // --- statements

  const instruction& reduction(const node& n) const { return k_.body[static_cast<std::size_t>(n.value)]; }
  void fill(const node& n) {
    const instruction& i = reduction(n);
    const auto nothing = nothing_of(i, static_cast<std::size_t>(count_of_parts(i)));
    auto& all = cells(n.to);
    const tile& to = tile_at(n.to);
    const std::size_t count = shapes_[static_cast<std::size_t>(n.to)].count,
                      from = to.slots > 1 ? count * static_cast<std::size_t>(index(to.at) % to.slots) : 0;
    for (std::size_t e = from; e < from + count; ++e)
      all[e].x = nothing[static_cast<std::size_t>(n.part)], all[e].written = true;
  }

  void define(const node& n) {
    const tile& to = tile_at(n.to);
    if (is_common(to) && !is_first(threads_)) return;
    if (is_global(to) && !is_first(grid_)) return;
    next_point();
    if (is_beyond(n.guards)) {
      if (is_beyond(n.guards & to.padded) && !is_beyond(n.guards & ~to.padded)) write(n.to, to.neutral);
      return;
    }
    write(n.to, n.tile >= 0 ? read(n.tile) : value(n.value));
  }

  /// Calls f() at each position of a tile's sides, of which each thread takes its own.
  template <class F>
  void each_position(int x, F&& f) {
    const tile& tile = tile_at(x);
    const auto& extents = shapes_[static_cast<std::size_t>(x)].extents;
    std::int64_t count = 1;
    for (auto e : extents) count *= e;
    const auto threads = static_cast<std::int64_t>(indices_.size());
    const bool one = t_[node_].by == mover::tma;
    for (std::int64_t e = 0; e < count; ++e) {
      if ((one ? 0 : e % threads) != thread_) continue;
      std::int64_t rest = e;
      for (std::size_t d = extents.size(); d-- > 0;) {
        shift_[static_cast<std::size_t>(tile.along[d].axis)] = rest % extents[d];
        rest /= extents[d];
      }
      f();
    }
    for (const auto& s : tile.along) shift_[static_cast<std::size_t>(s.axis)] = 0;
  }
  void copy(const node& n) {
    const tile& to = tile_at(n.to);
    flight asked;
    each_position(n.to, [&] {
      next_point();
      scalar x = to.neutral;
      if (is_beyond(n.guards)) {
        if (is_beyond(n.guards & ~to.padded)) return;
      } else {
        x = n.tile >= 0 ? read(n.tile) : value(n.value);
      }
      const std::size_t at = place(n.to);
      if (n.by == mover::threads) return write_at(n.to, at, x);
      claim(n.to, at).written = false;
      asked.cells.push_back({at, rounded_for(n.to, x)});
    });
    if (n.by != mover::threads) flights_of(n.to).push_back(std::move(asked));
  }
  void wait(const node& n) {
    auto& all = flights_of(n.tile);
    while (all.size() > static_cast<std::size_t>(n.lag)) {
      for (const auto& [at, x] : all[0].cells) {
        cell& c = cells(n.tile)[at];
        c.x = x;
        c.written = true;
        c.writer = thread_;
        c.written_at = epoch_;
      }
      all.erase(all.begin());
    }
  }

  void store_value(const node& n) {
    if (!is_first(threads_) || !is_first(grid_) || is_beyond(n.guards)) return;
    next_point();
    const store& s = k_.stores[static_cast<std::size_t>(n.value)];
    scalar x = value(s.value);
    auto& m = memory_[static_cast<std::size_t>(s.at.buffer)];
    const std::int64_t to = at(s.at.at);
    if (to < 0 || to >= static_cast<std::int64_t>(m.size()))
      fail("store " + std::to_string(n.value) + " writes outside its memory");
    char& known = stored_[static_cast<std::size_t>(n.value)][static_cast<std::size_t>(to)];
    if (std::exchange(known, 1)) fail("store " + std::to_string(n.value) + " stores a position twice");
    m[static_cast<std::size_t>(to)] = rounded(x, k_.buffers[static_cast<std::size_t>(s.at.buffer)].type);
  }

  /// Calls f() at each position of pieces without loops.
  template <class F>
  void each_turn(const series<int>& pieces, std::size_t from, F&& f) {
    if (from == pieces.size()) return f();
    const int origin = t_.origin(pieces[from]);
    const opened o = open(origin);
    for (std::int64_t i = 0; i < extent(pieces[from]); ++i) {
      index(origin) = i;
      each_turn(pieces, from + 1, f);
    }
    close(origin, o);
  }

  /// A weighted reduction, some of whose sums an intrinsic adds: a block of keys at once, each weight rounded to the factor's dtype.
  void merge_block(const node& n, const instruction& i) {
    const std::uint32_t over = axes_over(i), rows = axes_of_pieces(n.over) & axes_of_tile(t_, n.to);
    const auto keys = pieces_along(t_, n.over, over),
               further = pieces_along(t_, n.over, axes_of_pieces(n.over) & ~rows & ~over);
    const int parts = count_of_parts(i);
    each_turn(pieces_along(t_, n.over, rows), 0, [&] {
      if (is_beyond(n.guards & rows)) return;
      const scalar before = read(n.to);
      double most = before.f;
      const auto each_key = [&](auto&& f) {
        each_turn(keys, 0, [&] {
          next_point();
          if (!is_beyond(n.guards & over)) f();
        });
      };
      each_key([&] {
        look_at_chain(n, i);
        most = greater(most, value(i.args[0]).f);
      });
      const double kept = weight(before.f, most);
      for (int p = 1; p < parts; ++p) {
        const auto c = contraction_of_part(k_, n.value, static_cast<std::size_t>(p));
        const int arg = i.args[static_cast<std::size_t>(p)];
        const dtype narrow = k_.body[static_cast<std::size_t>(unwidened(k_, arg))].type;
        each_turn(c ? further : series<int>{}, 0, [&] {
          next_point();
          if (is_beyond(n.guards & axes_of_tile(t_, n.to + p))) return;
          double sum = read(n.to + p).f * kept;
          each_key([&] {
            const double w = weight(value(i.args[0]).f, most);
            sum += (c ? rounded({w, 0}, narrow).f : w) * value(arg).f;
          });
          write(n.to + p, rounded({sum, 0}, dtype::f32));
        });
      }
      write(n.to, {most, 0});
    });
  }
  /// A lane that multiplies a weight has computed it.
  void look_at_chain(const node& n, const instruction& i) {
    const int x = score_of(t_, n, open_);
    const auto& row = schedules::intrinsics()[static_cast<std::size_t>(n.row)];
    if (x < 0 || tile_at(x).row != n.row || tile_at(x).operand != 2)
      fail(text_of_use() + " weighs " + name(i.args[0]) + ", which no intrinsic made");
    const auto& s = shapes_[static_cast<std::size_t>(x)];
    const auto lane = place(x) % fragment_size(x) / static_cast<std::size_t>(s.registers);
    const auto at = [&](int d) { return coordinate(tile_at(x), tile_at(x).along[static_cast<std::size_t>(d)]); };
    const int wanted = static_cast<int>(at(s.rows) % row.m << 8 | at(s.columns) % row.k);
    for (int l = 0; l < row.fx.width(); ++l)
      for (int r = 0; r < row.fx.count(); ++r)
        if (row.fx.element(l, r) == wanted && static_cast<std::size_t>(l) != lane)
          fail(text_of_use() + " multiplies a weight that another lane has");
  }
  void merge(const node& n) {
    const instruction& i = reduction(n);
    if (n.row >= 0) return merge_block(n, i);
    const std::uint32_t over = axes_over(i);
    std::uint32_t rows = 0;
    for (int p : n.over)
      if (axes_of_tile(t_, n.to) >> t_.loop(p).axis & 1u) rows |= 1u << t_.loop(p).axis;
    each_turn(pieces_along(t_, n.over, rows), 0, [&] {
      each_turn(pieces_along(t_, n.over, n.tile < 0 ? over : 0), 0, [&] {
        next_point();
        const std::uint32_t further = axes_of_pieces(n.over) & ~rows & ~over;
        if (!is_beyond(n.guards & ~further)) merge_element(n, i, pieces_along(t_, n.over, further));
      });
    });
  }
  std::uint32_t axes_of_pieces(const series<int>& pieces) const {
    std::uint32_t mask = 0;
    for (int p : pieces) mask |= 1u << t_.loop(p).axis;
    return mask;
  }
  series<dtype> types_of(int base, int parts) const {
    series<dtype> out;
    for (int p = 0; p < parts; ++p) out.push_back(tile_at(base + p).type);
    return out;
  }
  /// Merges one element, or one partial result; sums along `further` axes are taken at each position of them.
  void merge_element(const node& n, const instruction& i, const series<int>& further) {
    const int parts = count_of_parts(i);
    const auto types = types_of(n.to, parts);
    if (i.rule != merge_rule::weighted) {
      tuple to, x;
      for (int p = 0; p < parts; ++p) to.push_back(read(n.to + p));
      if (n.tile >= 0) {
        for (int p = 0; p < parts; ++p) x.push_back(read(n.tile + p));
      } else {
        series<scalar> args;
        for (int a : i.args) args.push_back(value(a));
        x = of_element(i, args);
      }
      merge_into(i, types, to, x);
      for (int p = 0; p < parts; ++p) write(n.to + p, to[static_cast<std::size_t>(p)]);
      return;
    }
    const scalar most = read(n.to), x = n.tile >= 0 ? read(n.tile) : value(i.args[0]);
    for (int p = 1; p < parts; ++p)
      each_turn(pieces_along(t_, further, axes_of_tile(t_, n.to + p)), 0, [&] {
        next_point();
        if (is_beyond(n.guards & axes_of_tile(t_, n.to + p))) return;
        tuple to{most, read(n.to + p)};
        merge_into(i, {types[0], types[static_cast<std::size_t>(p)]}, to,
                   {x, n.tile >= 0 ? read(n.tile + p) : value(i.args[static_cast<std::size_t>(p)])});
        write(n.to + p, to[1]);
      });
    tuple to{most};
    merge_into(i, {types[0]}, to, {x});
    write(n.to, to[0]);
  }

  // --- matrix intrinsics

  /// The pieces of an intrinsic's rows, columns and terms.
  struct matrix_pieces {
    int m = -1, n = -1, k = -1;
  };
  matrix_pieces pieces_of(const node& n, const contraction& c) const {
    matrix_pieces out;
    for (int p : n.over) {
      const int a = t_.loop(p).axis;
      if (std::count(c.m.begin(), c.m.end(), a)) out.m = p;
      if (std::count(c.n.begin(), c.n.end(), a)) out.n = p;
      if (std::count(c.k.begin(), c.k.end(), a)) out.k = p;
    }
    return out;
  }
  void set(int p, std::int64_t turn) {
    if (p >= 0) index(t_.origin(p)) = turn;
  }
  /// An operand of the intrinsic at a turn: registers as they lie, or elements by their positions.
  std::vector<scalar> gathered(const node& n, int v, int operand, int rows, int columns, std::int64_t row,
                               std::int64_t column) {
    const auto& i = schedules::intrinsics()[static_cast<std::size_t>(n.row)];
    const auto& f = schedules::operand_of(i, operand);
    const std::int64_t high = operand == 1 ? i.k : i.m, wide = operand == 0 ? i.k : i.n;
    std::vector<scalar> out(static_cast<std::size_t>(high * wide));
    set(rows, row), set(columns, column);
    int x = operand == 2 ? n.to : source_of(v);
    if (x == -1) x = source_of(unwidened(k_, v));  // widened by the intrinsic itself
    const bool raw = x >= 0 && tile_at(x).row == n.row && tile_at(x).operand == operand;
    const std::size_t base = raw ? place(x) : 0;
    for (int lane = 0; lane < f.width(); ++lane)
      for (int r = 0; r < f.count(); ++r) {
        const int e = f.element(lane, r);
        next_point();
        set(rows, row + (e >> 8)), set(columns, column + (e & 255));
        out[static_cast<std::size_t>((e >> 8) * wide + (e & 255))] =
            raw ? read_at(x, base + static_cast<std::size_t>(lane * shapes_[static_cast<std::size_t>(x)].registers + r))
            : operand == 2 ? read(x)
                           : value(v);
      }
    return out;
  }
  void matrix(const node& n) {
    const auto c = contraction_of(k_, n.value);
    const auto& i = schedules::intrinsics()[static_cast<std::size_t>(n.row)];
    const matrix_pieces p = pieces_of(n, *c);
    series<int> opened_here;
    for (int q : {p.m, p.n, p.k})
      if (q >= 0) open_.push_back(t_.origin(q));
    const auto turns = [&](int q) { return q < 0 ? 1 : extent(q); };
    for (std::int64_t a = 0; a < turns(p.m); a += i.m)
      for (std::int64_t b = 0; b < turns(p.n); b += i.n)
        for (std::int64_t d = 0; d < turns(p.k); d += i.k) one_intrinsic(n, *c, p, a, b, d);
    for (int q : {p.m, p.n, p.k})
      if (q >= 0) open_.pop_back();
  }
  void one_intrinsic(const node& n, const contraction& c, const matrix_pieces& p, std::int64_t a, std::int64_t b,
                     std::int64_t d) {
    const auto& i = schedules::intrinsics()[static_cast<std::size_t>(n.row)];
    set(p.m, a), set(p.n, b), set(p.k, d);
    const auto x = gathered(n, c.x, 0, p.m, p.k, a, d);
    set(p.m, a);
    const auto y = gathered(n, c.y, 1, p.k, p.n, d, b);
    set(p.k, d);
    auto sum = gathered(n, n.value, 2, p.m, p.n, a, b);
    const dtype type = computed_as(i.sum);
    const auto at = [](std::int64_t r, std::int64_t w, std::int64_t col) {
      return static_cast<std::size_t>(r * w + col);
    };
    for (int r = 0; r < i.m; ++r)
      for (int col = 0; col < i.n; ++col)
        for (int e = 0; e < i.k; ++e) {
          scalar& s = sum[at(r, i.n, col)];
          const scalar u = x[at(r, i.k, e)], w = y[at(e, i.n, col)];
          if (is_float(type)) s.f += u.f * w.f;
          else s.i += u.i * w.i;
        }
    for (int r = 0; r < i.m; ++r)
      for (int col = 0; col < i.n; ++col) {
        set(p.m, a + r), set(p.n, b + col);
        write(n.to, rounded(sum[at(r, i.n, col)], type));
      }
  }

  const tree& t_;
  const kernel& k_;
  std::span<const std::int64_t> sizes_;
  memory& memory_;
  draws random_;
  series<std::int64_t> extents_, steps_, lengths_, shift_;
  std::vector<extents_of_tile> shapes_;
  std::vector<series<char>> stored_;
  series<int> grid_, threads_, open_;
  std::vector<series<std::int64_t>> indices_, digits_;
  std::vector<series<series<cell>>> private_;
  std::vector<series<series<flight>>> flights_;
  std::vector<series<cell>> common_;
  std::vector<series<int>> visible_;
  series<std::int64_t>* index_ = nullptr;
  int launch_ = 0, block_ = 0, thread_ = 0, epoch_ = 0, node_ = 0;
  std::vector<scalar> memo_;
  std::vector<std::int64_t> stamps_;
  std::int64_t stamp_ = 0;
};

}  // namespace detail

/// Runs a tree on memory for the sizes of its symbols. Returns its first fault as a sentence; empty: none. Of threads and blocks
/// the order is drawn from `seed`.
inline std::string interpret(const tree& t, std::span<const std::int64_t> sizes, memory& m, std::uint64_t seed = 0) {
  try {
    detail::interpreter(t, sizes, m, seed).run();
  } catch (const detail::fault& f) {
    return f.what;
  }
  return {};
}

}  // namespace sinter::engine::plan::loops
