// emit/cuda/spelling.hpp: trees of loops -> CUDA: blocks and warps for the grid and the threads, the lanes of a warp for the pieces of
// matrix intrinsics, whose fragments lie in registers.
#pragma once

#include "../../base/sorted.hpp"
#include "../../ir/ops/attention_back.hpp"
#include "../../plan/loops/fragments.hpp"
#include "../../plan/loops/waits.hpp"
#include "launch.hpp"

namespace sinter::engine::emit {

namespace loops = plan::loops;

/// Prints the launches of a tree; `block` is a block's number, and the threads of a block are its warps' lanes.
class tree_printer {
 public:
  /// Throws refusal if the tree has something that this spelling lacks.
  tree_printer(const loops::tree& t, writer& out)
      : t_(t), k_(*t.code), p_(k_, out, 0, plan::has_wide_offsets(k_)), out_(out) {
    for (const auto& n : t.nodes) groups_ = groups_ || is_of_group(n);
    for (std::size_t x = 0; x < t.tiles.size(); ++x) places_.push_back(place_of(static_cast<int>(x)));
  }

  cuda_printer& values() { return p_; }
  /// The blocks of a launch.
  dim blocks(int launch) {
    collect(launch);
    dim n = 1;
    for (int p : grid_) n *= t_.loop(p).extent;
    return n;
  }
  /// The threads of its blocks.
  int threads(int launch) {
    collect(launch);
    return 32 * static_cast<int>(warps());
  }
  /// Bytes of dynamic shared memory.
  int shared(int launch) const {
    for (int x : tiles_of(launch))
      if (tile_at(x).in == loops::space::shared) return static_cast<int>(shared_);
    return 0;
  }
  /// The blocks that a multiprocessor shall hold; 0: as many as it can. Groups of warps wait for one another, so a second block helps.
  int resident(int launch) const {
    constexpr std::int64_t most_shared = 110 << 10, most_registers = 112;
    std::int64_t held = 0;
    for (int x : tiles_of(launch))
      if (!loops::is_common(tile_at(x))) held += places_[static_cast<std::size_t>(x)].count * registers_of(x);
    return groups_ && shared_ <= most_shared && held <= most_registers ? 2 : 0;
  }
  /// Bytes of scratch memory.
  dim scratch() const { return scratch_; }

  /// The body of a block.
  void print(int launch) {
    collect(launch);
    p_.uniform_values();
    out_.line(std::string("const int lane = threadIdx.x%32, warp = ") +
              (groups_ ? "__shfl_sync(0xffffffffu, threadIdx.x/32, 0);" : "threadIdx.x/32;"));
    digits("block", grid_, true);
    digits("warp", threads_, false);
    declare_tiles(launch);
    statements(t_[t_.launches[static_cast<std::size_t>(launch)].root].inside);
  }

 private:
  using fragment = plan::schedules::fragment;
  static std::string number(std::int64_t n) { return std::to_string(n); }
  static std::string turn(int p) { return "q" + number(p); }
  std::string tile_name(int x) const { return "t" + number(t_.memory_of(x)); }
  const loops::tile& tile_at(int x) const { return t_.tiles[static_cast<std::size_t>(x)]; }
  const loops::piece& loop(int p) const { return t_.loop(p); }
  static const plan::schedules::intrinsic& row(int r) {
    return plan::schedules::intrinsics()[static_cast<std::size_t>(r)];
  }
  /// Whether a statement multiplies by groups of warps.
  static bool is_of_group(const loops::node& n) {
    return n.row >= 0 && row(n.row).who == plan::schedules::scope::group;
  }
  [[noreturn]] static void refuse(std::string why) { throw plan::refusal{std::move(why), ir::no_node}; }
  static std::int64_t fixed(const dim& d, const char* what) {
    const auto n = d.number();
    if (!n) refuse(std::string("cuda: ") + what + " has no fixed size");
    return *n;
  }

  // --- grid and threads

  void collect(int launch) {
    grid_.clear(), threads_.clear();
    loops::for_each_inside(t_, t_.launches[static_cast<std::size_t>(launch)].root, [&](int n) {
      if (t_[n].what != loops::act::loop || t_[n].piece < 0) return;
      const auto& p = loop(t_[n].piece);
      const int origin = t_.origin(t_[n].piece);
      auto* list = p.to == loops::bind::grid ? &grid_ : p.to == loops::bind::threads ? &threads_ : nullptr;
      if (list && !std::count(list->begin(), list->end(), origin)) list->push_back(origin);
      if (list && p.part != loops::turns::all) refuse("cuda: a part of a loop of blocks or threads");
      if (p.to == loops::bind::lanes) refuse("cuda: lanes of vectors");
    });
  }
  std::int64_t warps() const {
    std::int64_t n = 1;
    for (int p : threads_) n *= fixed(loop(p).extent, "a loop of threads");
    return n;
  }
  /// Whether the bounds of a loop inside lie the later, the later the turn of a piece of the grid: its last turns take longest.
  bool ends_late(int p) const {
    const auto axis = static_cast<std::size_t>(loop(p).axis);
    const auto grows = [&](const plan::affine& at) {
      return at.stride[axis].is_number() && *at.stride[axis].number() > 0;
    };
    return std::any_of(t_.pieces.begin(), t_.pieces.end(),
                       [&](const auto& x) { return std::any_of(x.high.begin(), x.high.end(), grows); });
  }
  /// Neighbouring blocks differ in the last piece; neighbouring warps in the first. Turns that take longest begin first.
  void digits(const std::string& of, const series<int>& pieces, bool last_first) {
    dim below = 1;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const int p = pieces[last_first ? pieces.size() - 1 - i : i];
      const dim& n = loop(p).extent;
      std::string text = below.is(1) ? of : of + "/" + p_.count(below);
      if (i + 1 < pieces.size()) text = (below.is(1) ? text : "(" + text + ")") + "%" + p_.count(n);
      if (last_first && n.is_number() && ends_late(p))
        text = number(*n.number() - 1) + " - (" + p_.idx() + ")(" + text + ")";
      out_.line("const " + p_.idx() + " " + turn(p) + " = " + text + ";");
      below *= n.is(0) ? dim(1) : n;
    }
  }

  // --- where tiles lie

  struct tile_place {
    series<int> inside;                ///< pieces inside the tile's loop, outermost first
    std::int64_t offset = 0;           ///< in shared memory
    std::int64_t lines = 1, wide = 1;  ///< shared: elements of all sides but the last, and of the last
    bool swizzled = false;
    std::int64_t block = 0;       ///< elements of a line in a block of such lines; 0: lines are whole
    std::int64_t pitch = 1;       ///< elements from a line to the next
    std::int64_t count = 1;       ///< private: fragments, or elements
    std::int64_t registers = 1;   ///< of a fragment, in a lane
    int rows = -1, columns = -1;  ///< pieces of matrix intrinsics inside
    const fragment* lanes = nullptr;
    bool packed = false;  ///< registers of 32 bits with several elements
    dim scratch;          ///< offset in scratch memory, in bytes
  };

  /// All pieces, outermost first, as the loops around the innermost statements have them.
  series<int> nesting() const {
    series<int> order;
    const auto note = [&](auto&& self, int n) -> void {
      const auto& x = t_[n];
      if (x.what == loops::act::loop && x.piece >= 0) {
        const int origin = t_.origin(x.piece);
        if (!std::count(order.begin(), order.end(), origin)) order.push_back(origin);
      }
      for (int c : x.inside) self(self, c);
      for (int o : x.over)
        if (const int origin = t_.origin(o); !std::count(order.begin(), order.end(), origin)) order.push_back(origin);
    };
    for (const auto& l : t_.launches) note(note, l.root);
    return order;
  }
  /// The loops around the first statement inside the loop of a piece, and that loop.
  series<int> around(int at) const {
    series<int> path, found;
    bool done = at < 0;
    const auto walk = [&](auto&& self, int n) -> void {
      if (done) return;
      const auto& x = t_[n];
      const int origin = x.what == loops::act::loop && x.piece >= 0 ? t_.origin(x.piece) : -1;
      if (origin >= 0) path.push_back(origin);
      if (origin == at) found = path, done = true;
      for (int c : x.inside) self(self, c);
      if (origin >= 0) path.pop_back();
    };
    for (const auto& l : t_.launches) walk(walk, l.root);
    return found;
  }
  static bool has(const series<int>& all, int x) { return std::count(all.begin(), all.end(), x) > 0; }

  tile_place place_of(int x) {
    const auto& tile = tile_at(x);
    tile_place s;
    const series<int> outside = around(tile.at);
    for (int p : nesting())
      if (!has(outside, p)) s.inside.push_back(p);
    if (tile.memory >= 0) lie_beside(places_[static_cast<std::size_t>(tile.memory)], s);
    else if (tile.in == loops::space::shared) lay_out(tile, s);
    else if (tile.in == loops::space::scratch) lay_out_scratch(tile, s);
    else hold(x, tile, s);
    return s;
  }
  /// The place of another tile in the same memory.
  static void lie_beside(const tile_place& other, tile_place& s) {
    series<int> inside = std::move(s.inside);
    s = other;
    s.inside = std::move(inside);
  }
  void lay_out(const loops::tile& tile, tile_place& s) {
    for (const auto& side : tile.along) {
      if (side.piece >= 0) refuse("cuda: partial results of threads in shared memory");
      s.lines *= s.wide;
      s.wide = fixed(side.extent, "a tile in shared memory");
    }
    const auto size = static_cast<std::int64_t>(size_of(tile.type)), bytes = s.wide * size;
    s.swizzled = s.lines > 1 && bytes >= 16 && (bytes & (bytes - 1)) == 0;
    if (groups_ && tile.as == loops::layout::swizzle128) {
      for (const std::int64_t wide : {32, 64, 128})
        if (bytes % wide == 0) s.block = wide / size;
      if (s.block == 0 || s.lines % 8) refuse("cuda: lines that groups of warps cannot take");
      s.swizzled = true;
    }
    // Else lines begin in different banks, if each has an odd number of 16 bytes.
    s.pitch = s.swizzled ? s.wide : ((bytes + 15) / 16 | 1) * 16 / size;
    const std::int64_t unit = groups_ ? 1024 : 128;
    s.offset = shared_;
    shared_ += (s.lines * s.pitch * size * tile.slots + unit - 1) / unit * unit;
  }
  void lay_out_scratch(const loops::tile& tile, tile_place& s) {
    if (tile.at >= 0) refuse("cuda: scratch memory of a block");
    dim n = static_cast<std::int64_t>(size_of(tile.type));
    for (const auto& side : tile.along) n *= side.extent;
    s.scratch = scratch_;
    scratch_ = scratch_ + plan::ceil_div(n, 256) * dim(256);
  }
  /// Private tiles: fragments in a warp's lanes, one of their sides, or plain elements.
  void hold(int x, const loops::tile& tile, tile_place& s) {
    if (tile.slots > 1) refuse("cuda: registers have no slots");
    for (const auto& side : tile.along) {
      if (side.piece >= 0) refuse("cuda: partial results of lanes");
      for (int p : s.inside) {
        if (loop(p).axis != side.axis || loop(p).to == loops::bind::threads) continue;
        if (loop(p).to == loops::bind::grid) refuse("cuda: a thread's tile for several blocks");
        if (loop(p).to == loops::bind::matrix) continue;
        s.count *= fixed(loop(p).extent, "a tile in registers");
      }
    }
    const auto held = loops::fragment_of(t_, x, s.inside);
    if (!held.lanes) return;
    s.rows = held.rows, s.columns = held.columns, s.lanes = held.lanes;
    for (int b = 0; b < static_cast<int>(held.lanes->registers.size()); ++b)
      if (is_bit_of(s, held.lanes->registers[static_cast<std::size_t>(b)])) s.registers *= 2;
    s.packed = tile.row >= 0 && tile.operand != 2;
  }
  /// Whether a bit of a register's number is one along the sides that a tile has.
  static bool is_bit_of(const tile_place& s, std::uint16_t adds) { return adds >= 256 ? s.rows >= 0 : s.columns >= 0; }

  // --- declarations

  sorted_set<int> tiles_of(int launch) const {
    sorted_set<int> used;
    loops::for_each_inside(t_, t_.launches[static_cast<std::size_t>(launch)].root, [&](int n) {
      const auto& x = t_[n];
      const int parts = x.what == loops::act::merge ? loops::count_of_parts(t_.at(x.value)) : 1;
      for (int p = 0; p < parts; ++p) {
        if (x.to >= 0) used.insert(x.to + p);
        if (x.tile >= 0) used.insert(x.tile + p);
      }
    });
    return used;
  }
  void declare_tiles(int launch) {
    if (shared(launch) > 0)
      out_.line(std::string("extern __shared__ ") + (groups_ ? "__align__(1024) " : "") + "words<16>::t ring[];");
    for (int x : tiles_of(launch)) declare(x);
  }
  std::string element_type(int x) const {
    const auto& tile = tile_at(x);
    if (loops::is_common(tile)) return memory_type(tile.in == loops::space::scratch ? computed(tile) : tile.type);
    return places_[static_cast<std::size_t>(x)].packed ? "unsigned" : scalar_type(computed(tile));
  }
  static dtype computed(const loops::tile& tile) { return plan::compute_type(tile.type); }
  void declare(int x) {
    const auto& tile = tile_at(x);
    const auto& s = places_[static_cast<std::size_t>(x)];
    const std::string type = element_type(x), name = tile_name(x);
    if (tile.in == loops::space::shared)
      return void(out_.line(type + "* const " + name + " = (" + type + "*)((char*)ring + " + number(s.offset) + ");"));
    if (tile.in == loops::space::scratch)
      return void(out_.line(type + "* const " + name + " = (" + type + "*)(scratch + (long)" +
                            (s.scratch.is_number() ? s.scratch.text() : "(" + s.scratch.text() + ")") + ");"));
    out_.line(type + " " + name + "[" + number(s.count) + "][" + number(registers_of(x)) + "];");
  }
  /// C++ objects of a lane for each of a tile's fragments.
  std::int64_t registers_of(int x) const {
    const auto& s = places_[static_cast<std::size_t>(x)];
    return s.packed ? s.registers * static_cast<std::int64_t>(size_of(tile_at(x).type)) / 4 : s.registers;
  }

  // --- positions

  static std::string plus(const std::string& a, const std::string& b) {
    if (a.empty() || a == "0") return b.empty() ? a : b;
    return b.empty() || b == "0" ? a : a + " + " + b;
  }
  /// Σ turn·step over the open pieces of an axis that `counts` accepts.
  template <class F>
  std::string along(int axis, F&& counts) const {
    std::string text;
    for (int p : open_)
      if (loop(p).axis == axis && counts(p)) text = plus(text, scaled(loop(p).step, turn(p)));
    return text.empty() ? "0" : text;
  }
  std::string position(int axis) const {
    return along(axis, [](int) { return true; });
  }
  /// Positions of the axes in `mask`, as the instructions' texts name them.
  void declare_axes(std::uint32_t mask) {
    for (int a = 0; mask >> a; ++a)
      if (mask >> a & 1u)
        out_.line("const " + p_.idx() + " " + cuda_printer::axis(static_cast<std::size_t>(a)) + " = " + position(a) +
                  ";");
  }
  std::string within(std::uint32_t axes) const {
    std::string text;
    for (int a = 0; axes >> a; ++a)
      if (axes >> a & 1u)
        text += (text.empty() ? "" : " && ") + cuda_printer::axis(static_cast<std::size_t>(a)) + " < " +
                p_.extent(static_cast<std::size_t>(a));
    return text;
  }
  std::string slot(int x) const {
    const auto& tile = tile_at(x);
    if (tile.slots == 1) return "";
    return turn(tile.at) + "%" + number(tile.slots) + (loops::is_common(tile) ? "*" + number(slot_size(x)) : "");
  }
  std::int64_t slot_size(int x) const {
    const auto& s = places_[static_cast<std::size_t>(x)];
    return s.lines * s.pitch;
  }
  /// The place of an element in a line of a tile in shared memory.
  std::string in_shared(int x, const std::string& line, const std::string& element) const {
    return tile_name(x) + " + " + element_of(x, line, element);
  }
  std::string element_of(int x, const std::string& line, const std::string& element) const {
    const auto& s = places_[static_cast<std::size_t>(x)];
    const auto size = static_cast<std::int64_t>(size_of(tile_at(x).type));
    const std::string base = slot(x).empty() ? "" : slot(x) + " + ";
    if (s.block > 0)
      return base + "blocked_place<" + number(s.block * size) + ", " + number(size) + ", " + number(s.lines) + ">(" +
             line + ", " + element + ")";
    if (s.swizzled)
      return base + "swizzled_place<" + number(s.wide * size) + ", " + number(size) + ">(" + line + ", " + element +
             ")";
    return base + "(" + line + ")*" + number(s.pitch) + " + " + element;
  }
  /// The same as operands of the words that take a tile and a number of bytes: its address has 32 bits.
  std::string bytes_of(int x, const std::string& line, const std::string& element) const {
    return tile_name(x) + ", (int)(" + element_of(x, line, element) + ")*" +
           number(static_cast<std::int64_t>(size_of(tile_at(x).type)));
  }
  /// The line, and the place in it, of the open loops' position in a tile in shared memory. `with` adds to an axis.
  template <class F>
  std::pair<std::string, std::string> line_and_element(int x, F&& with) const {
    const auto& tile = tile_at(x);
    const auto& s = places_[static_cast<std::size_t>(x)];
    std::string line = "0", element = "0";
    for (std::size_t d = 0; d < tile.along.size(); ++d) {
      const auto& side = tile.along[d];
      const std::string at = plus(along(side.axis, [&](int p) { return has(s.inside, p); }), with(side.axis));
      if (d + 1 == tile.along.size()) element = at;
      else line = line == "0" ? at : "(" + line + ")*" + side.extent.text() + " + " + at;
    }
    return {line, element};
  }
  std::string element_of_shared(int x) const {
    const auto [line, element] = line_and_element(x, [](int) { return std::string(); });
    return in_shared(x, line, element);
  }
  std::string element_of_scratch(int x) const {
    const auto& s = places_[static_cast<std::size_t>(x)];
    std::string at = "0";
    for (const auto& side : tile_at(x).along) {
      const std::string c =
          side.piece >= 0 ? turn(side.piece) : along(side.axis, [&](int p) { return has(s.inside, p); });
      at = at == "0" ? c : "(" + at + ")*(long)" + parenthesised(side.extent) + " + " + c;
    }
    return tile_name(x) + " + " + at;
  }
  /// The number of the fragment, or of the element, of a private tile at the open loops' position.
  std::string fragment_number(int x) const {
    const auto& s = places_[static_cast<std::size_t>(x)];
    std::string at = "0";
    for (const auto& side : tile_at(x).along)
      for (int p : s.inside) {
        if (loop(p).axis != side.axis || loop(p).to == loops::bind::threads || loop(p).to == loops::bind::matrix)
          continue;
        if (loop(p).extent.is(1)) continue;
        const std::string c = has(open_, p) ? turn(p) : "0";
        at = at == "0" ? c : "(" + at + ")*" + loop(p).extent.text() + " + " + c;
      }
    return at;
  }

  // --- lanes

  /// The pieces of intrinsics whose turns a warp's lanes take side by side, register by register.
  struct lanes_of {
    int rows = -1, columns = -1;
    const fragment* f = nullptr;
  };

  /// "lane/4*2 + …": the rows, or the columns, that bits of a number add.
  static std::string bits_text(const std::string& of, std::span<const std::uint16_t> bits, bool rows,
                               const series<int>& at) {
    std::string text;
    for (std::size_t b = 0; b < bits.size(); ++b) {
      if ((bits[b] >= 256) != rows) continue;
      const int adds = rows ? bits[b] >> 8 : bits[b];
      const std::string bit = at[b] == 0 ? "(" + of + " & 1)" : "(" + of + " >> " + number(at[b]) + " & 1)";
      text = plus(text, adds == 1 ? bit : bit + "*" + number(adds));
    }
    return text;
  }
  /// The same of a lane's number, in which bits of one kind follow each other.
  static std::string lane_text(const fragment& f, bool rows) {
    std::string text;
    for (std::size_t b = 0; b < f.lanes.size();) {
      const auto adds = [&](std::size_t i) { return rows ? f.lanes[i] >> 8 : f.lanes[i] & 255; };
      if ((f.lanes[b] >= 256) != rows) {
        ++b;
        continue;
      }
      std::size_t end = b + 1;
      while (end < f.lanes.size() && (f.lanes[end] >= 256) == rows && adds(end) == adds(b) << (end - b)) ++end;
      std::string part = b == 0 ? "lane" : "lane/" + number(1 << b);
      if (end < f.lanes.size()) part += "%" + number(1 << (end - b));
      text = plus(text, adds(b) == 1 ? part : part + "*" + number(adds(b)));
      b = end;
    }
    return text;
  }
  /// The place of bit b of an element's register number among those of a tile with only one side of the fragment.
  series<int> bit_places(const fragment& f, bool rows, bool columns) const {
    series<int> at;
    int n = 0;
    for (std::uint16_t adds : f.registers) {
      const bool mine = adds >= 256 ? rows : columns;
      at.push_back(mine ? n : 0);
      n += mine;
    }
    return at;
  }
  int count_of(const lanes_of& l) const {
    int n = 1;
    for (std::uint16_t adds : l.f->registers) n *= (adds >= 256 ? l.rows >= 0 : l.columns >= 0) ? 2 : 1;
    return n;
  }
  /// Declares the turns of the pieces for register `r`.
  void declare_lane(const lanes_of& l, const std::string& r) {
    const auto at = bit_places(*l.f, l.rows >= 0, l.columns >= 0);
    if (l.rows >= 0)
      out_.line("const int " + turn(l.rows) + " = " +
                plus(lane_text(*l.f, true), bits_text(r, l.f->registers, true, at)) + ";");
    if (l.columns >= 0)
      out_.line("const int " + turn(l.columns) + " = " +
                plus(lane_text(*l.f, false), bits_text(r, l.f->registers, false, at)) + ";");
  }
  /// Lanes that have the same elements of a side alone: the first of them stores. "": each has its own.
  std::string first_lane(const lanes_of& l) const {
    int mask = 0;
    for (std::size_t b = 0; b < l.f->lanes.size(); ++b)
      if (l.f->lanes[b] >= 256 ? l.rows < 0 : l.columns < 0) mask |= 1 << b;
    return mask ? "(lane & " + number(mask) + ") == 0" : "";
  }
  /// The register of a private tile that holds the element of the lane loop's register `r`.
  std::string register_of(int x) const {
    const auto& s = places_[static_cast<std::size_t>(x)];
    if (!s.lanes) return "0";
    if (!lanes_.f) refuse("cuda: a fragment is read outside the loops of its intrinsic");
    const auto mine = bit_places(*lanes_.f, lanes_.rows >= 0, lanes_.columns >= 0);
    const auto its = bit_places(*s.lanes, s.rows >= 0, s.columns >= 0);
    if (s.lanes == lanes_.f && s.rows == lanes_.rows && s.columns == lanes_.columns) return "r";
    std::string text;
    for (std::size_t b = 0; b < s.lanes->registers.size(); ++b) {
      if (!is_bit_of(s, s.lanes->registers[b])) continue;
      bool found = false;
      for (std::size_t c = 0; c < lanes_.f->registers.size() && !found; ++c)
        if (lanes_.f->registers[c] == s.lanes->registers[b]) {
          text = plus(text, "(r >> " + number(mine[c]) + " & 1)*" + number(1 << its[b]));
          found = true;
        }
      if (!found) refuse("cuda: a fragment is read in the lanes of another one");
    }
    return text.empty() ? "0" : text;
  }

  // --- statements

  void statements(const series<int>& all) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto& n = t_[all[i]];
      // One wait for neighbouring ones of equal lag.
      if (n.what == loops::act::wait && i + 1 < all.size() && t_[all[i + 1]].what == loops::act::wait &&
          t_[all[i + 1]].lag <= n.lag)
        continue;
      if (const auto held = groups_ && !multiplying_ ? tiles_of_products(all[i]) : sorted_set<int>(); !held.empty())
        products(held, turns_behind(all[i]), [&] { statement(all[i]); });
      else statement(all[i]);
    }
  }
  /// The tiles in registers of a statement that consists of products by groups of warps; empty for others.
  sorted_set<int> tiles_of_products(int n) const {
    sorted_set<int> held;
    bool others = false;
    loops::for_each_inside(t_, n, [&](int c) {
      const auto& x = t_[c];
      if (x.what == loops::act::loop) return;
      others = others || x.what != loops::act::matrix || !is_of_group(x);
      if (others) return;
      held.insert(x.to);
      const int left = plan::contraction_of(k_, x.value)->x;
      for (std::size_t o = 0; o < t_.tiles.size(); ++o)
        if (const auto& tile = t_.tiles[o]; tile.in == loops::space::registers && tile.row == x.row &&
                                            tile.operand == 0 &&
                                            (tile.value == left || tile.value == plan::unwidened(k_, left)))
          held.insert(static_cast<int>(o));
    });
    return others ? sorted_set<int>() : held;
  }
  /// The later turns in which the products of a statement may still run.
  int turns_behind(int n) const {
    int turns = 0;
    loops::for_each_inside(t_, n, [&](int c) {
      if (t_[c].what == loops::act::matrix)
        if (const int x = loops::tile_behind(t_, t_[c]); x >= 0) turns = tile_at(x).behind;
    });
    return turns;
  }
  /// Behind a loop, the products that run on in it end.
  void finish_products(int n) {
    sorted_set<int> sums;
    loops::for_each_inside(t_, n, [&](int c) {
      if (t_[c].what != loops::act::matrix) return;
      if (const int x = loops::tile_behind(t_, t_[c]); x >= 0 && tile_at(x).at == t_.origin(t_[n].piece))
        sums.insert(t_[c].to);
    });
    if (!sums.empty()) out_.line("await_products<0>();");
    for (int x : sums) out_.line("pin(" + tile_name(x) + ");");
  }
  /// Products that run side by side. Their operands and sums in registers are theirs meanwhile.
  template <class F>
  void products(const sorted_set<int>& held, int behind, F&& inside) {
    const auto pin = [&] {
      for (int x : held) out_.line("pin(" + tile_name(x) + ");");
    };
    pin();
    out_.line("begin_products();");
    multiplying_ = true;
    inside();
    multiplying_ = false;
    out_.line("commit_products();");
    out_.line("await_products<" + number(behind) + ">();");
    if (behind == 0) pin();
  }
  void statement(int n) {
    const auto& x = t_[n];
    switch (x.what) {
      case loops::act::loop:
        return print_loop(n);
      case loops::act::fill:
        return fill(x);
      case loops::act::define:
        return define(x);
      case loops::act::copy:
        return copy(x);
      case loops::act::matrix:
        return matrix(x);
      case loops::act::merge:
        return merge(x);
      case loops::act::store:
        return store(x);
      case loops::act::wait:
        return void(out_.line("await_copies<" + number(x.lag) + ">();"));
      case loops::act::barrier:
        if (groups_) out_.line("share_copies();");
        return void(out_.line("__syncthreads();"));
    }
  }

  bool asks(int n) const {
    bool found = false;
    loops::for_each_inside(t_, n, [&](int c) { found = found || loops::detail::is_asked_for(t_[c]); });
    return found;
  }
  std::string bound_text(const plan::affine& at) const {
    std::string text = at.offset.text();
    for (std::size_t a = 0; a < at.stride.size(); ++a)
      if (!at.stride[a].is(0)) text += " + " + scaled(at.stride[a], "(" + position(static_cast<int>(a)) + ")");
    if (at.index >= 0) {
      if (!p_.knows(at.index)) refuse("cuda: a loop's bound is no uniform value");
      text += " + " + scaled(at.indirect, "(" + p_.idx() + ")" + cuda_printer::name(at.index));
    }
    return text;
  }
  /// A loop's first turn, and the one behind its last. Those of bounded loops are declared as low<p> and high<p>.
  std::pair<std::string, std::string> bounds(int p) {
    const auto& x = loop(p);
    const bool part = x.part == loops::turns::full || x.part == loops::turns::edge;
    if (x.low.empty() && x.high.empty() && !part) return {"0", parenthesised(x.extent)};
    declare_bounds(p);
    return {"low" + number(p), "high" + number(p)};
  }
  void declare_bounds(int p) {
    const auto& x = loop(p);
    const int origin = t_.origin(p);
    const std::string type = p_.idx(), step = "(" + type + ")" + parenthesised(x.step);
    const std::string base = along(x.axis, [&](int q) { return q != origin; });
    std::string low = "0", high = parenthesised(x.extent);
    for (const auto& l : x.low)
      low = "most((" + type + ")(" + low + "), floor_quotient((" + type + ")(" + bound_text(l) + " - (" + base +
            ")), " + step + "))";
    for (const auto& h : x.high)
      high = "least((" + type + ")" + high + ", -floor_quotient(-((" + type + ")(" + bound_text(h) + ") - (" + base +
             ")), " + step + "))";
    const std::string length = parenthesised(k_.axes[static_cast<std::size_t>(x.axis)].extent) + "/" + step;
    if (x.part == loops::turns::full) high = "least((" + type + ")" + high + ", (" + type + ")(" + length + "))";
    if (x.part == loops::turns::edge) {
      low = "most((" + type + ")(" + low + "), (" + type + ")(" + length + "))";
    }
    out_.line("const " + type + " low" + number(p) + " = " + low + ", high" + number(p) + " = " + high + ";");
  }

  void print_loop(int n) {
    const int p = t_[n].piece;
    if (p < 0) return statements(t_[n].inside);
    const auto& x = loop(p);
    if (x.to == loops::bind::matrix) return lanes(n);
    if (x.to == loops::bind::grid || x.to == loops::bind::threads) {
      if (!x.low.empty() || !x.high.empty()) refuse("cuda: bounds of a loop of blocks or threads");
      return enter(n);
    }
    const bool plain = x.low.empty() && x.high.empty() && x.part == loops::turns::all;
    const auto inside = [&] {
      const auto [low, high] = bounds(p);
      if (x.part == loops::turns::head || x.part == loops::turns::next) return ahead(n, low, high);
      const auto count = plain ? x.extent.number() : std::nullopt;
      // Longer loops take too many registers for the places in shared memory.
      const bool whole = count && !holds_barrier(n), unroll = x.to == loops::bind::unrolled || (whole && *count <= 4);
      if (unroll && !count) refuse("cuda: an unrolled loop has no fixed number of turns");
      out_.line(unroll ? "#pragma unroll" : whole ? "#pragma unroll 2" : "#pragma unroll 1");
      const std::string i = turn(t_.origin(p));
      // Of a loop of known length ptxas may make several copies, which takes seconds.
      const bool hides = count && !whole && !unroll;
      const std::string end = hides ? "end" + number(p) : high,
                        also = hides ? ", " + end + " = opaque((" + p_.idx() + ")" + high + ")" : "";
      out_.block("for (" + p_.idx() + " " + i + " = " + low + also + "; " + i + " < " + end + "; ++" + i + ")",
                 [&] { enter(n); });
      finish_products(n);
    };
    if (plain) inside();
    else out_.block("", inside);
  }
  bool holds_barrier(int n) const {
    bool found = false;
    loops::for_each_inside(
        t_, n, [&](int c) { found = found || t_[c].what == loops::act::barrier || t_[c].what == loops::act::wait; });
    return found;
  }
  /// The first turns before a loop, or the turn ahead of the current one.
  void ahead(int n, const std::string& low, const std::string& high) {
    const int p = t_[n].piece;
    const auto& x = loop(p);
    const std::string i = turn(t_.origin(p)), later = "later" + number(p);
    const auto one = [&] {
      out_.block("if (" + later + " < " + high + ")", [&] {
        out_.line("const " + p_.idx() + " " + i + " = " + later + ";");
        enter(n);
      });
      if (asks(n)) out_.line("end_copies();");
    };
    if (x.part == loops::turns::next) {
      out_.line("const " + p_.idx() + " " + later + " = " + i + " + " + number(x.ahead) + ";");
      return one();
    }
    out_.line("#pragma unroll");
    out_.block("for (int h = 0; h < " + number(x.ahead) + "; ++h)", [&] {
      out_.line("const " + p_.idx() + " " + later + " = " + low + " + h;");
      one();
    });
  }
  void enter(int n) {
    const int origin = t_.origin(t_[n].piece);
    const bool again = has(open_, origin);
    if (!again) open_.push_back(origin);
    statements(t_[n].inside);
    if (!again) open_.pop_back();
  }

  // --- loops of matrix intrinsics

  /// The nested loops from n on over pieces of intrinsics, and the statements inside.
  void lanes(int n) {
    series<int> pieces;
    int last = n;
    for (;;) {
      pieces.push_back(t_.origin(t_[last].piece));
      const auto& inside = t_[last].inside;
      if (inside.size() != 1 || t_[inside[0]].what != loops::act::loop || t_[inside[0]].piece < 0 ||
          loop(t_[inside[0]].piece).to != loops::bind::matrix)
        break;
      last = inside[0];
    }
    const auto& inside = t_[last].inside;
    if (inside.size() == 1 && fragments(t_[inside[0]], pieces)) return;
    const lanes_of outer = std::exchange(lanes_, lanes_for(last, pieces));
    if (outer.f) refuse("cuda: loops of two intrinsics inside each other");
    if (inside.size() == 1 && packs_pairs(t_[inside[0]])) {
      packed_block(t_[inside[0]], pieces);
      lanes_ = outer;
      return;
    }
    if (inside.size() == 1 && t_[inside[0]].what == loops::act::store && stores_pairs(t_[inside[0]])) {
      pairs(t_[inside[0]], pieces);
    } else {
      out_.line("#pragma unroll");
      out_.block("for (int r = 0; r < " + number(count_of(lanes_)) + "; ++r)", [&] {
        declare_lane(lanes_, "r");
        for (int p : pieces) open_.push_back(p);
        statements(inside);
        for (std::size_t i = 0; i < pieces.size(); ++i) open_.pop_back();
      });
    }
    lanes_ = outer;
  }
  /// Whether a lane's neighbouring elements come to one register of a tile that an intrinsic takes.
  bool packs_pairs(const loops::node& n) const {
    if (n.what != loops::act::define || n.tile >= 0) return false;
    const auto& to = tile_at(n.to);
    const auto& s = places_[static_cast<std::size_t>(n.to)];
    return s.packed && s.rows >= 0 && s.columns >= 0 && plan::schedules::same(*s.lanes, *lanes_.f) &&
           size_of(to.type) == 2 && is_float(to.type) && lanes_.f->registers[0] == 1;
  }
  void packed_block(const loops::node& n, const series<int>& pieces) {
    const auto whole = block_is_whole(n, n.guards);
    if (whole.empty()) return packed(n, pieces, false);
    out_.block("if (" + whole + ")", [&] { packed(n, pieces, true); });
    out_.block("else", [&] { packed(n, pieces, false); });
  }
  /// Pairs of elements, rounded at once; `whole`: no mask and no guard holds back one of them.
  void packed(const loops::node& n, const series<int>& pieces, bool whole) {
    const auto& to = tile_at(n.to);
    const std::uint32_t guards = whole ? 0 : n.guards;
    out_.line("#pragma unroll");
    out_.block("for (int pair = 0; pair < " + number(count_of(lanes_) / 2) + "; ++pair)", [&] {
      out_.line("s_f32 y[2];");
      out_.line("#pragma unroll");
      out_.block("for (int h = 0; h < 2; ++h)", [&] {
        out_.line("const int r = pair*2 + h;");
        declare_lane(lanes_, "r");
        for (int p : pieces) open_.push_back(p);
        const auto scope = p_.scope();
        declare_axes(axes_of_values(n) | guards);
        if (guards) out_.line("y[h] = " + cuda_literal(dtype::f32, to.neutral) + ";");
        where(within(guards), [&] {
          if (whole) assume_inside(n);
          values(n, n.to, true);
          out_.line("y[h] = " + cuda_printer::name(n.value) + ";");
        });
        p_.leave(scope);
        for (std::size_t i = 0; i < pieces.size(); ++i) open_.pop_back();
      });
      out_.line(tile_name(n.to) + "[" + fragment_number(n.to) + "][pair] = packed<" + memory_type(to.type) +
                ">(y[0], y[1]);");
    });
  }
  /// Which lane takes which turns: as the fragments that the statements use have them.
  lanes_of lanes_for(int n, const series<int>& pieces) const {
    const auto fits = [&](const tile_place& s) {
      return s.lanes && s.rows >= 0 && s.columns >= 0 && pieces.size() == 2 && has(pieces, s.rows) &&
             has(pieces, s.columns);
    };
    lanes_of found;
    loops::for_each_inside(t_, n, [&](int c) {
      series<int> open = open_;
      for (int p : pieces) open.push_back(p);
      for (const auto& u : loops::uses_of(t_, t_[c], open))
        if (const auto& s = places_[static_cast<std::size_t>(u.tile)]; !found.f && fits(s))
          found = {s.rows, s.columns, s.lanes};
    });
    if (found.f) return found;
    const auto any = loops::fragment_over(t_, pieces);
    if (!any.lanes) refuse("cuda: no intrinsic has these pieces");
    return {any.rows, any.columns, any.lanes};
  }
  /// A statement that all lanes do at once: a fragment from shared memory.
  bool fragments(const loops::node& n, const series<int>& pieces) {
    if (n.what != loops::act::define || n.to < 0 || n.tile >= 0) return false;
    const auto& to = tile_at(n.to);
    if (to.row < 0 || to.operand == 2 || loops::is_common(to)) return false;
    series<int> open = open_;
    for (int p : pieces) open.push_back(p);
    if (n.body.size() > 0) return false;
    const int from = loops::visible_tile(t_, n.value, open, n.to);
    if (from < 0 || tile_at(from).in != loops::space::shared || tile_at(from).type != to.type) return false;
    if ((n.guards & ~tile_at(from).padded) != 0) return false;
    return load_fragment(n, from);
  }

  /// Prints a fragment's load by ldmatrix, if the tile lies so.
  bool load_fragment(const loops::node& n, int from) {
    const auto& s = places_[static_cast<std::size_t>(n.to)];
    const auto& f = *s.lanes;
    const auto size = static_cast<int>(size_of(tile_at(n.to).type)), each = 4 / size;
    const auto& line = tile_at(from).along.back();
    // Whether lines run along the fragment's terms: columns of the left operand, rows of the right one.
    const bool left = tile_at(n.to).operand == 0;
    const int terms = left ? s.columns : s.rows, others = left ? s.rows : s.columns;
    const bool plain = line.axis == loop(terms).axis, turned = line.axis == loop(others).axis && size == 2;
    if ((!plain && !turned) || !loop(terms).step.is(1) || !loop(others).step.is(1)) return false;
    if (places_[static_cast<std::size_t>(from)].pitch * size % 16 != 0) return false;
    int below = 0;
    while (1 << below < each) ++below;
    // Of each matrix: what its number's bits add to the terms, and to the other axis.
    const auto adds = [&](std::uint16_t bit, bool of_terms) {
      const bool is_row = bit >= 256, of_rows = left != of_terms;
      return is_row == of_rows ? (is_row ? bit >> 8 : bit) : 0;
    };
    const int words = static_cast<int>(registers_of(n.to));
    std::string at_terms, at_others;
    const auto note = [&](int bit, int terms_more, int others_more) {
      const std::string b = "(lane >> " + number(3 + bit) + " & 1)";
      if (terms_more) at_terms = plus(at_terms, b + "*" + number(terms_more));
      if (others_more) at_others = plus(at_others, b + "*" + number(others_more));
    };
    for (int bit = 0; 1 << bit < words; ++bit) {
      const std::uint16_t x = f.registers[static_cast<std::size_t>(below + bit)];
      note(bit, adds(x, true), adds(x, false));
    }
    if (words != 4 && words != 2) return false;
    const std::string q = "lane%8";
    if (plain) at_others = plus(q, at_others);
    else at_terms = plus(q, at_terms);
    const std::string which = turned && !plain ? "true" : "false",
                      target = tile_name(n.to) + "[" + fragment_number(n.to) + "]";
    const auto with = [&](const std::string& more) {
      const auto [l, e] = line_and_element(from, [&](int axis) {
        return axis == loop(terms).axis ? at_terms : axis == loop(others).axis ? plus(at_others, more) : std::string();
      });
      return bytes_of(from, l, e);
    };
    if (words == 4) {
      out_.line("load_matrices<" + which + ">(" + target + ", " + with("") + ");");
    } else {
      load_pair(n, which, others, with);
    }
    round_fragment(n, words);
    return true;
  }
  /// Two fragments of two registers are one load, where a loop has both.
  template <class F>
  void load_pair(const loops::node& n, const std::string& which, int others, F&& with) {
    const std::string name = tile_name(n.to), at = fragment_number(n.to);
    const int p = open_.empty() ? -1 : open_.back();
    const std::int64_t wide = fixed(loop(others).extent, "an intrinsic");
    const bool pair = p >= 0 && loop(p).axis == loop(others).axis && loop(p).to == loops::bind::unrolled &&
                      loop(p).step.is(wide) && loop(p).extent.divided_by(2).has_value();
    if (!pair) {
      out_.line("unsigned spare[2];");
      out_.line("load_matrices<" + which + ">(" + name + "[" + at + "], spare, " + with("") + ");");
      return;
    }
    const std::string first = "if (" + turn(p) + "%2 == 0) ";
    out_.line(first + "load_matrices<" + which + ">(" + name + "[" + at + "], " + name + "[" + at + " + 1], " +
              with("(lane >> 4 & 1)*" + number(wide)) + ");");
  }
  /// f32 is rounded to tf32.
  void round_fragment(const loops::node& n, int words) {
    if (tile_at(n.to).type != dtype::f32) return;
    const std::string at = tile_name(n.to) + "[" + fragment_number(n.to) + "][w]";
    const int p = open_.empty() ? -1 : open_.back();
    if (words == 2 && p >= 0 && loop(p).to == loops::bind::unrolled && loop(p).extent.divided_by(2) &&
        pairs_along(n, p)) {
      out_.line("if (" + turn(p) + "%2 == 1)");
      out_.line("#pragma unroll");
      out_.line("for (int w = 0; w < 4; ++w) { unsigned& u = " + tile_name(n.to) + "[" + fragment_number(n.to) +
                " - 1 + w/2][w%2]; u = tf32(__uint_as_float(u)); }");
      return;
    }
    out_.line("#pragma unroll");
    out_.line("for (int w = 0; w < " + number(words) + "; ++w) " + at + " = tf32(__uint_as_float(" + at + "));");
  }
  bool pairs_along(const loops::node& n, int p) const {
    const auto& s = places_[static_cast<std::size_t>(n.to)];
    const int others = tile_at(n.to).operand == 0 ? s.rows : s.columns;
    return loop(p).axis == loop(others).axis && loop(p).step == loop(others).extent;
  }

  // --- values

  /// Declares the values that a statement takes from tiles, and computes its body.
  void values(const loops::node& n, int to, bool near = false) {
    for (int v : loops::values_read(t_, n)) {
      if (p_.knows(v)) continue;
      const int x = loops::visible_tile(t_, v, open_, to);
      if (x < 0) continue;
      out_.line("const " + scalar_type(t_.at(v).type) + " " + cuda_printer::name(v) + " = " + read(x) + ";");
      p_.mark_defined(v);
    }
    for (int v : n.body) {
      if (p_.knows(v)) continue;
      // A power that is rounded to 16 bits: in base 2.
      if (const auto& i = t_.at(v);
          near && i.code == ir::ops::power_op && i.kind == plan::kind::compute && i.type == dtype::f32) {
        out_.line("const s_f32 " + cuda_printer::name(v) + " = exp2_near(" + cuda_printer::name(i.args[0]) +
                  "*0x1.715476p+0f);");
        p_.mark_defined(v);
      } else {
        p_.define(v, -1);
      }
    }
  }
  std::string read(int x) const {
    const auto& tile = tile_at(x);
    if (tile.in == loops::space::shared) return "load1(" + element_of_shared(x) + ")";
    if (tile.in == loops::space::scratch) return "load1(" + element_of_scratch(x) + ")";
    const std::string at = tile_name(x) + "[" + fragment_number(x) + "]";
    if (!places_[static_cast<std::size_t>(x)].packed) return at + "[" + register_of(x) + "]";
    const auto each = static_cast<std::int64_t>(4 / size_of(tile.type));
    const std::string r = register_of(x);
    return "element<" + memory_type(tile.type) + ">(" + at + "[(" + r + ")/" + number(each) + "], (" + r + ")%" +
           number(each) + ")";
  }
  void write(int x, const std::string& value) {
    const auto& tile = tile_at(x);
    if (tile.in == loops::space::shared) return void(out_.line("store1(" + element_of_shared(x) + ", " + value + ");"));
    if (tile.in == loops::space::scratch)
      return void(out_.line("store1(" + element_of_scratch(x) + ", " + value + ");"));
    const std::string at = tile_name(x) + "[" + fragment_number(x) + "]";
    if (!places_[static_cast<std::size_t>(x)].packed)
      return void(out_.line(at + "[" + register_of(x) + "] = " + value + ";"));
    const auto each = static_cast<std::int64_t>(4 / size_of(tile.type));
    const std::string r = register_of(x);
    out_.line("put_element<" + memory_type(tile.type) + ">(" + at + "[(" + r + ")/" + number(each) + "], (" + r + ")%" +
              number(each) + ", " + value + ");");
  }
  std::uint32_t axes_of_body(const loops::node& n) const {
    std::uint32_t mask = n.guards | axes_of_values(n);
    if (n.what == loops::act::store) mask |= loops::axes_of(k_.stores[static_cast<std::size_t>(n.value)].at.at);
    return mask;
  }
  std::uint32_t axes_of_values(const loops::node& n) const {
    std::uint32_t mask = 0;
    const auto note = [&](int v) {
      const auto& i = t_.at(v);
      mask |= loops::axes_of(i.at.at);
      for (const auto& r : i.ranges) mask |= loops::axes_of(r.at);
    };
    for (int v : n.body) {
      note(v);
      // A guarded load tests its ranges itself.
      if (plan::is_guarded(t_.at(v))) note(t_.at(v).args[0]);
    }
    return mask;
  }
  /// Of threads that would do the same, the first does it.
  std::string only() const {
    std::string text;
    for (int p : threads_)
      if (!has(open_, p)) text += (text.empty() ? "" : " && ") + turn(p) + " == 0";
    const std::string first = lanes_.f ? first_lane(lanes_) : "lane == 0";
    if (!first.empty()) text += (text.empty() ? "" : " && ") + first;
    return text;
  }
  std::string only_block() const {
    std::string text;
    for (int p : grid_)
      if (!has(open_, p)) text += (text.empty() ? "" : " && ") + turn(p) + " == 0";
    return text;
  }
  static std::string both(const std::string& a, const std::string& b) {
    return a.empty() ? b : b.empty() ? a : a + " && " + b;
  }
  template <class F>
  void where(const std::string& condition, F&& inside) {
    if (condition.empty()) return inside();
    out_.block("if (" + condition + ")", inside);
  }

  void fill(const loops::node& n) {
    const auto& i = t_.at(n.value);
    if (loops::is_common(tile_at(n.to))) refuse("cuda: a common tile is filled");
    std::string value = "0";
    if (i.rule == plan::merge_rule::one) value = cuda_identity(i);
    else if (n.part == 0) value = "-infinity(" + scalar_type(tile_at(n.to).type) + "())";
    const std::string at = tile_name(n.to);
    const auto& s = places_[static_cast<std::size_t>(n.to)];
    out_.line("#pragma unroll");
    out_.line("for (int f = 0; f < " + number(s.count) + "; ++f)");
    out_.line("#pragma unroll");
    out_.line("for (int r = 0; r < " + number(registers_of(n.to)) + "; ++r) " + at + "[f][r] = " + value + ";");
  }

  void define(const loops::node& n) {
    out_.block("", [&] {
      const auto scope = p_.scope();
      declare_axes(axes_of_body(n));
      const auto& to = tile_at(n.to);
      std::string once = loops::is_common(to) ? only() : "";
      if (to.in == loops::space::scratch) once = both(once, only_block());
      where(once, [&] {
        const std::string in = within(n.guards);
        const bool padded = n.guards != 0 && (n.guards & ~to.padded) == 0;
        where(in, [&] {
          const auto inside = p_.scope();
          std::string value;
          if (n.tile >= 0) value = read(n.tile);
          else {
            values(n, n.to);
            value = cuda_printer::name(n.value);
          }
          write(n.to, rounded(n.to, value));
          p_.leave(inside);
        });
        if (padded) out_.block("else", [&] { write(n.to, cuda_literal(to.type, to.neutral)); });
      });
      p_.leave(scope);
    });
  }
  /// tf32 has fewer bits than the f32 that a register holds.
  std::string rounded(int x, const std::string& value) const {
    const auto& tile = tile_at(x);
    if (tile.row >= 0 && tile.operand != 2 && tile.type == dtype::f32) return "__uint_as_float(tf32(" + value + "))";
    return value;
  }

  void store(const loops::node& n) {
    const auto& s = k_.stores[static_cast<std::size_t>(n.value)];
    out_.block("", [&] {
      const auto scope = p_.scope();
      declare_axes(axes_of_body(n));
      where(both(both(only(), only_block()), within(n.guards)), [&] {
        const auto inside = p_.scope();
        values(n, -1);
        p_.store_scalar(s);
        p_.leave(inside);
      });
      p_.leave(scope);
    });
  }
  /// Whether a lane's two neighbouring columns can be stored at once.
  bool stores_pairs(const loops::node& n) const {
    const auto& s = k_.stores[static_cast<std::size_t>(n.value)];
    if (lanes_.columns < 0 || lanes_.rows < 0 || lanes_.f->registers.empty() || lanes_.f->registers[0] != 1)
      return false;
    const int axis = loop(lanes_.columns).axis;
    return loop(lanes_.columns).step.is(1) && plan::is_vector_access(k_, s.at, axis, 2) &&
           divides(2, k_.axes[static_cast<std::size_t>(axis)].extent);
  }
  void pairs(const loops::node& n, const series<int>& pieces) {
    const auto& s = k_.stores[static_cast<std::size_t>(n.value)];
    const std::string type = memory_type(k_.buffers[static_cast<std::size_t>(s.at.buffer)].type);
    out_.line("#pragma unroll");
    out_.block("for (int pair = 0; pair < " + number(count_of(lanes_) / 2) + "; ++pair)", [&] {
      out_.line("pack<2, " + type + "> y;");
      for (int p : pieces) open_.push_back(p);
      const auto at_register = [&](const std::string& r, auto&& inside) {
        out_.line("const int r = " + r + ";");
        declare_lane(lanes_, "r");
        const auto scope = p_.scope();
        declare_axes(axes_of_body(n));
        where(both(both(only(), only_block()), within(n.guards)), inside);
        p_.leave(scope);
      };
      out_.line("#pragma unroll");
      out_.block("for (int h = 0; h < 2; ++h)", [&] {
        at_register("pair*2 + h", [&] {
          values(n, -1);
          out_.line("put(y, h, " + cuda_printer::name(p_.source_of(s)) + ");");
        });
      });
      at_register("pair*2", [&] { out_.line("store(" + p_.address(s.at) + ", y);"); });
      for (std::size_t i = 0; i < pieces.size(); ++i) open_.pop_back();
    });
  }

  /// The threads of the block copy the positions of a tile.
  void copy(const loops::node& n) {
    const bool asked = n.by != loops::mover::threads;
    out_.block("", [&] {
      const auto scope = p_.scope();
      if (!asked || !copy_chunks(n)) copy_elements(n);
      p_.leave(scope);
    });
    // Copies of a loop that runs ahead end together.
    if (asked && tile_at(n.to).slots == 1) out_.line("end_copies();");
  }
  /// Declares the line and the place in it of copy `w` of `each` elements, and the axes.
  void place_copy(const loops::node& n, std::int64_t each) {
    const auto& tile = tile_at(n.to);
    const auto& s = places_[static_cast<std::size_t>(n.to)];
    const std::string per_line = number(s.wide / each);
    out_.line("const int line = w/" + per_line + ", e = w%" + per_line + (each > 1 ? "*" + number(each) : "") + ";");
    std::int64_t below = 1;
    for (std::size_t d = tile.along.size(); d-- > 0;) {
      const auto& side = tile.along[d];
      const std::int64_t extent = fixed(side.extent, "a tile in shared memory");
      std::string at = "e";
      if (d + 1 < tile.along.size()) {
        at = extent == 1 ? "0" : below == 1 ? "line" : "line/" + number(below);
        if (extent != 1 && below * extent < s.lines) at = (below == 1 ? at : "(" + at + ")") + "%" + number(extent);
        below *= extent;
      }
      const std::string base = along(side.axis, [&](int p) { return !has(s.inside, p); });
      out_.line("const " + p_.idx() + " " + cuda_printer::axis(static_cast<std::size_t>(side.axis)) + " = " +
                plus(base, at) + ";");
    }
    std::uint32_t others = axes_of_body(n);
    for (const auto& side : tile.along) others &= ~(1u << side.axis);
    declare_axes(others);
  }
  template <class F>
  void over_threads(std::int64_t count, F&& inside) {
    const std::int64_t all = 32 * warps(), turns = (count + all - 1) / all;
    out_.line(turns <= 16 ? "#pragma unroll" : "#pragma unroll 1");
    out_.block("for (int u = 0; u < " + number(turns) + "; ++u)", [&] {
      out_.line("const unsigned w = u*" + number(all) + " + threadIdx.x;");
      if (count % all) out_.line("if (w >= " + number(count) + ") break;");
      inside();
    });
  }
  bool copy_chunks(const loops::node& n) {
    const auto& i = t_.at(n.value);
    const auto& tile = tile_at(n.to);
    const auto& s = places_[static_cast<std::size_t>(n.to)];
    const auto size = static_cast<std::int64_t>(size_of(tile.type));
    if (i.kind != plan::kind::load || n.tile >= 0 || n.body.size() != 1) return false;
    const int axis = tile.along.back().axis;
    std::int64_t bytes = 16;
    while (bytes >= 4 &&
           (bytes < size || s.wide * size % bytes || !plan::is_vector_access(k_, i.at, axis, bytes / size)))
      bytes /= 2;
    if (bytes < 4 || plan::is_guarded(i)) return false;
    const std::int64_t each = bytes / size;
    over_threads(s.lines * s.wide / each, [&] {
      place_copy(n, each);
      const std::string to = bytes_of(n.to, "line", "e"), from = p_.address(i.at);
      std::string filled = number(bytes);
      const std::uint32_t inner = 1u << axis;
      if (n.guards & inner) {
        const std::string left = "(" + p_.extent(static_cast<std::size_t>(axis)) + " - " +
                                 cuda_printer::axis(static_cast<std::size_t>(axis)) + ")";
        filled = divides(each, k_.axes[static_cast<std::size_t>(axis)].extent)
                     ? left + " > 0 ? " + number(bytes) + " : 0"
                     : "(int)least(most((" + p_.idx() + ")" + left + ", (" + p_.idx() + ")0), (" + p_.idx() + ")" +
                           number(each) + ")*" + number(size);
      }
      if (const auto rest = within(n.guards & ~inner); !rest.empty()) filled = rest + " ? (" + filled + ") : 0";
      out_.line("copy_part<" + number(bytes) + ">(" + to + ", " + from + ", " + filled + ");");
    });
    return true;
  }
  void copy_elements(const loops::node& n) {
    const auto& tile = tile_at(n.to);
    const auto& s = places_[static_cast<std::size_t>(n.to)];
    over_threads(s.lines * s.wide, [&] {
      place_copy(n, 1);
      const auto scope = p_.scope();
      const std::string to = in_shared(n.to, "line", "e");
      where(within(n.guards), [&] {
        if (n.tile >= 0) refuse("cuda: a copy of partial results");
        for (int v : loops::values_read(t_, n)) {
          const int x = loops::visible_tile(t_, v, open_, n.to);
          if (x >= 0 && !p_.knows(v)) refuse("cuda: a copy is computed of other tiles");
        }
        for (int v : n.body)
          if (!p_.knows(v)) p_.define(v, -1);
        out_.line("store1(" + to + ", " + cuda_printer::name(n.value) + ");");
      });
      p_.leave(scope);
      if (n.guards != 0 && (n.guards & ~tile.padded) == 0)
        out_.block("else", [&] { out_.line("store1(" + to + ", " + cuda_literal(tile.type, tile.neutral) + ");"); });
    });
  }

  /// The blocks of sums, or of terms, that an intrinsic has side by side.
  int blocks_along(int row_number, int operand, int p) const {
    return plan::schedules::blocks_of(row(row_number), operand, loop(p).extent.number().value_or(0));
  }
  /// A product by groups of warps, into sums of a statement's columns.
  void group_matrix(const loops::node& n) {
    const auto c = plan::contraction_of(k_, n.value);
    const auto& i = row(n.row);
    int m = -1, columns = -1, terms = -1;
    for (int p : n.over) {
      const int a = loop(p).axis;
      (has(c->m, a) ? m : has(c->n, a) ? columns : terms) = p;
    }
    if (m < 0 || columns < 0 || terms < 0) refuse("cuda: a group of warps takes rows, columns and terms");
    const int blocks = blocks_along(n.row, 0, terms);
    if (!loop(m).extent.is(i.m) || blocks_along(n.row, 2, columns) < 4 || blocks == 0)
      refuse("cuda: a group of warps takes other blocks");
    const int x = operand_tile(c->x), y = operand_tile(c->y);
    const bool held = tile_at(x).in == loops::space::registers;
    if (held && (tile_at(x).row != n.row || tile_at(x).operand != 0)) refuse("cuda: an operand lies otherwise");
    const std::string sums = tile_name(n.to) + "[" + fragment_number(n.to) + "]",
                      part = tile_name(x) + "[" + fragment_number(x) + "]";
    for (int b = 0; b < blocks; ++b) {
      const auto term = [&](int axis) { return axis == loop(terms).axis && b > 0 ? number(b * i.k) : std::string(); };
      const auto place = [&](int axis) {
        if (axis != loop(m).axis) return term(axis);
        return "(warp%" + number(plan::schedules::warps_of_group) + ")*" + number(-i.m);
      };
      const described left = !held         ? describe(x, loop(terms).axis, place)
                             : blocks == 1 ? described{part, false}
                                           : described{"part_of<4, " + number(b) + ">(" + part + ")", false};
      multiply(i, sums, left, describe(y, loop(terms).axis, term));
    }
  }
  /// The tile of a factor, as it is or before it is widened.
  int operand_tile(int v) const {
    int x = loops::visible_tile(t_, v, open_);
    if (x < 0) x = loops::visible_tile(t_, plan::unwidened(k_, v), open_);
    if (x < 0) refuse("cuda: an intrinsic's operand is in no tile");
    return x;
  }
  /// An operand's text, and whether its lines run along rows or columns.
  struct described {
    std::string text;
    bool turned = false;
  };
  /// A matrix in shared memory that begins at the open loops' position, to which `with` adds.
  template <class F>
  described describe(int x, int terms, F&& with) const {
    const auto& s = places_[static_cast<std::size_t>(x)];
    const auto size = static_cast<std::int64_t>(size_of(tile_at(x).type));
    if (tile_at(x).in != loops::space::shared || s.block == 0) refuse("cuda: a group of warps reads shared memory");
    const bool turned = tile_at(x).along.back().axis != terms;
    const auto [line, element] = line_and_element(x, with);
    return {"matrix_at<" + number(s.block * size) + ">(" + bytes_of(x, line, element) + ", " +
                number(turned ? s.lines * s.block * size : 16) + ", " + number(8 * s.block * size) + ")",
            turned};
  }
  void multiply(const plan::schedules::intrinsic& i, const std::string& sums, const described& x, const described& y) {
    out_.line(std::string(i.word) + "<" + (x.turned ? "1" : "0") + ", " + (y.turned ? "1" : "0") + ">(" + sums + ", " +
              x.text + ", " + y.text + ");");
  }

  void matrix(const loops::node& n) {
    if (is_of_group(n)) return group_matrix(n);
    const auto c = plan::contraction_of(k_, n.value);
    const auto held = [&](int v, int operand) {
      const int x = operand_tile(v);
      if (tile_at(x).row != n.row || tile_at(x).operand != operand)
        refuse("cuda: an intrinsic's operand is not in registers");
      return tile_name(x) + "[" + fragment_number(x) + "]";
    };
    const auto& i = row(n.row);
    bool pair = false;
    for (int p : n.over) {
      const int a = loop(p).axis;
      const int unit = has(c->m, a) ? i.m : has(c->n, a) ? i.n : i.k;
      if (has(c->n, a) && loop(p).extent.is(2 * i.n)) pair = true;
      else if (!loop(p).extent.is(unit)) refuse("cuda: an intrinsic takes several turns");
    }
    const std::string sum = tile_name(n.to) + "[" + fragment_number(n.to) + "]", x = held(c->x, 0), y = held(c->y, 1);
    if (!pair) return void(out_.line(std::string(i.word) + "(" + sum + ", " + x + ", " + y + ");"));
    const auto half = [](const std::string& of, int n, int h) {
      return "part_of<" + number(n) + ", " + number(h) + ">(" + of + ")";
    };
    for (int h : {0, 1})
      out_.line(std::string(i.word) + "(" + half(sum, i.fs.count(), h) + ", " + x + ", " +
                half(y, i.fy.count() * static_cast<int>(size_of(i.y)) / 4, h) + ");");
  }
  // --- weighted merges by an intrinsic

  /// The pieces over which a merge by an intrinsic goes, without those of the intrinsic itself.
  struct merge_pieces {
    series<int> rows, keys, further;
    int row = -1, key = -1, column = -1;  ///< the intrinsic's
    std::int64_t key_tiles = 1, column_tiles = 1;
  };
  merge_pieces pieces_of(const loops::node& n) const {
    const auto axes = loops::detail::axes_of_matrix(t_, n);
    merge_pieces out;
    for (int p : n.over) {
      const int a = loop(p).axis;
      const bool m = has(axes->m, a), k = has(axes->k, a);
      if (loop(p).to == loops::bind::matrix) (m ? out.row : k ? out.key : out.column) = p;
      else (m ? out.rows : k ? out.keys : out.further).push_back(p);
    }
    for (int p : out.keys) out.key_tiles *= fixed(loop(p).extent, "a block of keys");
    for (int p : out.further) out.column_tiles *= fixed(loop(p).extent, "a block of columns");
    const auto& i = row(n.row);
    const auto fits = [&](int p) { return is_of_group(n) ? blocks_along(n.row, 2, p) > 1 : loop(p).extent.is(i.n); };
    if (out.row < 0 || out.key < 0 || out.column < 0 || !loop(out.row).extent.is(i.m) || !fits(out.key) ||
        !fits(out.column))
      refuse("cuda: a weighted merge in other blocks than those of its intrinsic");
    return out;
  }
  /// Unrolled loops over pieces.
  template <class F>
  void over_pieces(const series<int>& pieces, std::size_t from, F&& inside) {
    if (from == pieces.size()) return inside();
    const int p = pieces[from];
    out_.line("#pragma unroll");
    out_.block("for (int " + turn(p) + " = 0; " + turn(p) + " < " + loop(p).extent.text() + "; ++" + turn(p) + ")",
               [&] {
                 open_.push_back(p);
                 over_pieces(pieces, from + 1, inside);
                 open_.pop_back();
               });
  }
  std::string number_along(const series<int>& pieces) const {
    std::string at = "0";
    for (int p : pieces) at = at == "0" ? turn(p) : "(" + at + ")*" + loop(p).extent.text() + " + " + turn(p);
    return at;
  }
  /// A register of the sums from one of a row's registers `h`, and one of a column's `c`.
  static std::string register_text(const fragment& f) {
    std::string text;
    int rows = 0, columns = 0;
    for (std::size_t b = 0; b < f.registers.size(); ++b) {
      const bool is_row = f.registers[b] >= 256;
      int& n = is_row ? rows : columns;
      text = plus(text, std::string("(") + (is_row ? "h" : "c") + " >> " + number(n++) + " & 1)*" + number(1 << b));
    }
    return text;
  }
  static int registers_along(const fragment& f, bool rows) {
    int n = 1;
    for (std::uint16_t adds : f.registers) n *= (adds >= 256) == rows ? 2 : 1;
    return n;
  }

  /// The condition that a block has no position outside the ranges of a statement's masks, nor beyond the axes `guards`; "": unknown.
  std::string block_is_whole(const loops::node& n, std::uint32_t guards) const {
    std::string text;
    bool known = true;
    const auto extreme = [&](const plan::affine& at, bool most) {
      std::string sum = at.offset.text();
      if (at.index >= 0) known = known && p_.knows(at.index);
      if (at.index >= 0) sum += " + " + scaled(at.indirect, "(" + p_.idx() + ")" + cuda_printer::name(at.index));
      for (std::size_t a = 0; a < at.stride.size(); ++a) {
        const dim& stride = at.stride[a];
        if (stride.is(0)) continue;
        const auto inner =
            loops::span_of_pieces(t_, static_cast<int>(a), [&](int p) { return !has(open_, p); }).number();
        if (!stride.is_number() || !inner) {
          known = false;
          continue;
        }
        const bool end = (*stride.number() > 0) == most;
        sum +=
            " + " + scaled(stride, "(" + position(static_cast<int>(a)) + (end ? " + " + number(*inner - 1) : "") + ")");
      }
      return sum;
    };
    const auto require = [&](const std::string& one) { text += (text.empty() ? "" : " && ") + one; };
    bool masked = false;
    for (int v : n.body)
      for (const auto& r : t_.at(v).ranges) {
        masked = true;
        require(extreme(r.at, false) + " >= 0");
        require(extreme(r.at, true) + " < " + parenthesised(r.extent));
      }
    for (int a = 0; masked && guards >> a; ++a) {
      if (!(guards >> a & 1u)) continue;
      plan::affine at{0, series<dim>(k_.axes.size()), {}, -1};
      at.stride[static_cast<std::size_t>(a)] = 1;
      require(extreme(at, true) + " < " + p_.extent(static_cast<std::size_t>(a)));
    }
    return known ? text : "";
  }

  void merge_block(const loops::node& n) {
    const merge_pieces m = pieces_of(n);
    const int score = loops::score_of(t_, n, open_);
    if (score < 0 || !places_[static_cast<std::size_t>(score)].lanes) refuse("cuda: weights of what no intrinsic made");
    over_pieces(m.rows, 0, [&] {
      const auto& f = *places_[static_cast<std::size_t>(score)].lanes;
      out_.line("s_f32 weights[" + number(m.key_tiles) + "][" + number(f.count()) + "];");
      if (const auto whole = block_is_whole(n, n.guards & loops::axes_over(t_.at(n.value))); whole.empty()) {
        scores(n, m, score, false);
      } else {
        out_.block("if (" + whole + ")", [&] { scores(n, m, score, true); });
        out_.block("else", [&] { scores(n, m, score, false); });
      }
      weigh(n, m, f);
      for (int part = 1; part < loops::count_of_parts(t_.at(n.value)); ++part)
        if (const auto c = plan::contraction_of_part(k_, n.value, static_cast<std::size_t>(part)))
          multiply_weights(n, m, f, part, c->y);
    });
  }
  /// The scores of a lane; `whole`: no mask and no guard holds back one of them.
  void scores(const loops::node& n, const merge_pieces& m, int score, bool whole) {
    const auto& s = places_[static_cast<std::size_t>(score)];
    const int v = t_.at(n.value).args[0];
    over_pieces(m.keys, 0, [&] {
      const lanes_of outer = std::exchange(lanes_, {s.rows, s.columns, s.lanes});
      out_.line("#pragma unroll");
      out_.block("for (int r = 0; r < " + number(count_of(lanes_)) + "; ++r)", [&] {
        declare_lane(lanes_, "r");
        open_.push_back(m.row);
        open_.push_back(m.key);
        const auto scope = p_.scope();
        const std::uint32_t guards = whole ? 0 : n.guards & loops::axes_over(t_.at(n.value));
        declare_axes(axes_of_values(n) | guards);
        const std::string to = "weights[" + number_along(m.keys) + "][r]";
        if (guards) out_.line(to + " = -infinity(s_f32());");
        where(within(guards), [&] {
          if (whole) assume_inside(n);
          score_value(n, v);
          out_.line(to + " = " + cuda_printer::name(v) + ";");
        });
        p_.leave(scope);
        open_.pop_back();
        open_.pop_back();
      });
      lanes_ = outer;
    });
  }
  /// All masks let a statement's positions through.
  void assume_inside(const loops::node& n) {
    for (int b : n.body)
      if (t_.at(b).kind == plan::kind::inside && !p_.knows(b)) {
        out_.line("const s_b8 " + cuda_printer::name(b) + " = true;");
        p_.mark_defined(b);
      }
  }
  /// Defines a score after its operands.
  void score_value(const loops::node& n, int v) {
    if (p_.knows(v)) return;
    if (!std::count(n.body.begin(), n.body.end(), v)) {
      const int x = loops::visible_tile(t_, v, open_);
      if (x < 0) refuse("cuda: a score that is nowhere");
      out_.line("const " + scalar_type(t_.at(v).type) + " " + cuda_printer::name(v) + " = " + read(x) + ";");
      return p_.mark_defined(v);
    }
    loops::for_each_operand(t_.at(v), [&](int o) { score_value(n, o); });
    p_.define(v, -1);
  }
  /// The new maximum of each row, the weights of its block, and the sums of them.
  void weigh(const loops::node& n, const merge_pieces& m, const fragment& f) {
    const int rows = registers_along(f, true), columns = registers_along(f, false);
    const std::string at = register_text(f), w = "weights[b][" + at + "]";
    const auto each = [&](const std::string& line) {
      out_.line("#pragma unroll");
      out_.line("for (int b = 0; b < " + number(m.key_tiles) + "; ++b)");
      out_.line("#pragma unroll");
      out_.line("for (int c = 0; c < " + number(columns) + "; ++c) " + line);
    };
    const auto across = [&](const std::string& line) {
      for (std::size_t b = 0; b < f.lanes.size(); ++b)
        if (f.lanes[b] < 256) out_.line(line + "__shfl_xor_sync(0xffffffffu, x, " + number(1 << b) + "));");
    };
    out_.line("s_f32 kept[" + number(rows) + "];");
    out_.line("#pragma unroll");
    out_.block("for (int h = 0; h < " + number(rows) + "; ++h)", [&] {
      const std::string most = tile_name(n.to) + "[" + fragment_number(n.to) + "][h]";
      out_.line("s_f32 x = " + most + ";");
      each("x = max_or_nan(x, " + w + ");");
      across("x = max_or_nan(x, ");
      // In base 2. Of nothing but -inf the weights are 0.
      out_.line("const s_f32 shift = x == -infinity(s_f32()) ? 0.0f : x*0x1.715476p+0f;");
      // Both shifts are rounded in one way, so that sums of an unchanged maximum stay as they are.
      out_.line("kept[h] = " + most + " == -infinity(s_f32()) ? 0.0f : exp2_near(" + most +
                "*0x1.715476p+0f - shift);");
      out_.line(most + " = x;");
      each(w + " = exp2_near(fused(" + w + ", 0x1.715476p+0f, -shift));");
      for (int part = 1; part < loops::count_of_parts(t_.at(n.value)); ++part) {
        const int arg = t_.at(n.value).args[static_cast<std::size_t>(part)];
        if (plan::contraction_of_part(k_, n.value, static_cast<std::size_t>(part))) continue;
        if (!p_.knows(arg)) refuse("cuda: a weighted sum of what varies along the keys");
        const std::string sum = tile_name(n.to + part) + "[" + fragment_number(n.to + part) + "][h]";
        out_.block("", [&] {
          out_.line("s_f32 x = 0;");
          each("x = x + " + w + "*" + cuda_printer::name(arg) + ";");
          across("x = x + (");
          out_.line(sum + " = fused(" + sum + ", kept[h], x);");
        });
      }
    });
  }
  /// The weights, rounded, are the left operand.
  void multiply_weights(const loops::node& n, const merge_pieces& m, const fragment& f, int part, int y) {
    const auto& i = row(n.row);
    const int to = n.to + part, from = loops::visible_tile(t_, plan::unwidened(k_, y), open_);
    if (from < 0 || tile_at(from).in != loops::space::shared || size_of(i.x) != 2)
      refuse("cuda: the factor of weights is not in shared memory");
    const std::string name = tile_name(to);
    const fragment& sums = *places_[static_cast<std::size_t>(to)].lanes;
    std::string row_of = "0";
    int below = 0;
    for (std::size_t b = 0; b < sums.registers.size(); ++b)
      if (sums.registers[b] >= 256) row_of = plus(row_of, "(r >> " + number(b) + " & 1)*" + number(1 << below++));
    const auto columns = [&](auto&& inside) { over_pieces(m.further, 0, inside); };
    columns([&] {
      out_.line("#pragma unroll");
      out_.line("for (int r = 0; r < " + number(sums.count()) + "; ++r) " + name + "[" + fragment_number(to) +
                "][r] *= kept[" + row_of + "];");
    });
    const std::int64_t all = m.key_tiles * f.count(), each = i.fx.count();
    if (all % each) refuse("cuda: a block of keys that an intrinsic does not divide");
    const auto over_terms = [&](auto&& inside) {
      out_.line("#pragma unroll");
      out_.block("for (int b = 0; b < " + number(all / each) + "; ++b)", inside);
    };
    const auto pack = [&](const std::string& to_register) {
      out_.line("#pragma unroll");
      out_.block("for (int r = 0; r < " + number(each) + "; r += 2)", [&] {
        const std::string e = "(b*" + number(each) + " + r)",
                          of = "weights[" + e + "/" + number(f.count()) + "][" + e + "%" + number(f.count());
        out_.line(to_register + "[r/2] = packed<" + memory_type(i.x) + ">(" + of + "], " + of + " + 1]);");
      });
    };
    if (!is_of_group(n)) {
      over_terms([&] {
        out_.line("unsigned x[" + number(each / 2) + "];");
        pack("x");
        multiply_columns(n, m, to, from);
      });
      return;
    }
    out_.line("unsigned x[" + number(all / each) + "][" + number(each / 2) + "];");
    over_terms([&] { pack("x[b]"); });
    out_.line("pin(x);");
    products({to}, 0, [&] { over_terms([&] { group_columns(n, m, to, from); }); });
    out_.line("pin(x);");
  }
  void group_columns(const loops::node& n, const merge_pieces& m, int to, int from) {
    const auto& i = row(n.row);
    const int key_axis = loop(m.key).axis;
    over_pieces(m.further, 0, [&] {
      const auto y =
          describe(from, key_axis, [&](int axis) { return axis == key_axis ? "b*" + number(i.k) : std::string(); });
      multiply(i, tile_name(to) + "[" + fragment_number(to) + "]", {"x[b]", false}, y);
    });
  }
  void multiply_columns(const loops::node& n, const merge_pieces& m, int to, int from) {
    const auto& i = row(n.row);
    const int key_axis = loop(m.key).axis, column_axis = loop(m.column).axis, inner = tile_at(from).along.back().axis;
    if (inner != key_axis && inner != column_axis) refuse("cuda: the factor of weights lies otherwise");
    const bool turned = inner == column_axis, pairs = m.column_tiles % 2 == 0 && !m.further.empty();
    const std::string terms = plus("b*" + number(i.k) + " + (lane >> 3 & 1)*8", turned ? "lane%8" : ""),
                      others = turned ? "" : "lane%8",
                      load = std::string("load_matrices<") + (turned ? "true" : "false") + ">(";
    if (pairs && !loop(m.further.back()).extent.divided_by(2)) refuse("cuda: an odd number of blocks of columns");
    out_.line("unsigned y[2][2];");
    over_pieces(m.further, 0, [&] {
      const auto [line, element] = line_and_element(from, [&](int axis) {
        if (axis == key_axis) return terms;
        if (axis != column_axis) return std::string();
        return pairs ? plus(others, "(lane >> 4 & 1)*" + number(i.n)) : others.empty() ? std::string("0") : others;
      });
      const std::string half = pairs ? turn(m.further.back()) + "%2" : "0";
      out_.line((pairs ? "if (" + half + " == 0) " : std::string()) + load + "y[0], y[1], " +
                bytes_of(from, line, element) + ");");
      out_.line(std::string(i.word) + "(" + tile_name(to) + "[" + fragment_number(to) + "], x, y[" + half + "]);");
    });
  }

  void merge(const loops::node& n) {
    if (n.row >= 0) return out_.block("", [&] { merge_block(n); });
    const auto& i = t_.at(n.value);
    if (i.rule != plan::merge_rule::one || !n.over.empty() || i.squares) refuse("cuda: a merge of tuples");
    out_.block("", [&] {
      const auto scope = p_.scope();
      declare_axes(axes_of_body(n));
      where(within(n.guards), [&] {
        std::string value;
        if (n.tile >= 0) value = read(n.tile);
        else {
          values(n, n.to);
          value = cuda_printer::name(i.args[0]);
        }
        const std::string old = read(n.to);
        write(n.to, "(" + scalar_type(i.type) + ")(" + cuda_expression(i.code, i.type, {old, value}, i.type) + ")");
      });
      p_.leave(scope);
    });
  }

  const loops::tree& t_;
  const kernel& k_;
  cuda_printer p_;
  writer& out_;
  series<tile_place> places_;
  series<int> grid_, threads_, open_;
  lanes_of lanes_;
  std::int64_t shared_ = 0;
  dim scratch_ = 0;
  bool groups_ = false, multiplying_ = false;
};

/// The source of a tree: an entry for each of its launches. Throws refusal if the tree has something that this spelling lacks.
inline cuda_source cuda(const loops::tree& t) {
  cuda_source s;
  writer out;
  const kernel* const only[] = {t.code};
  s.scratch = 0;
  for (std::size_t l = 0; l < t.launches.size(); ++l) {
    if (l > 1) throw plan::refusal{"cuda: a tree of more than two launches", ir::no_node};
    tree_printer p(t, out);
    s.scratch = p.scratch();
    const auto launch = static_cast<int>(l);
    const plan::grid grid{p.blocks(launch), p.threads(launch), p.resident(launch), p.shared(launch)};
    detail::cuda_launch_of(s, out, only, l == 0 ? kernel_entry : finish_entry, grid, [&] { p.print(launch); });
    if (t.launches.size() > 1) detail::tell_touched(s, p.values());
  }
  return s;
}

}  // namespace sinter::engine::emit
