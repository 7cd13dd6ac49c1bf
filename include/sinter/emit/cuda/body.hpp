// emit/cuda/body.hpp: values of a kernel -> CUDA statements of one thread: scalars, and tiles of several vectors of lanes,
// all loaded before the first is used.
#pragma once

#include "../../base/sorted.hpp"
#include "layout.hpp"
#include "text.hpp"

namespace sinter::engine::emit {

/// A thread's walk over its part of an iteration space: `vectors` positions, with `width` lanes along `axis` at each.
struct cuda_tile : plan::lanes {
  int vectors = 1;
  int filled = 0;               ///< of these, the first that are whole in each thread
  std::string guard;            ///< a condition on a position; "": none
  std::string filled_guard;     ///< the condition on the first `filled`
  std::function<void()> place;  ///< prints the axes' positions for `u`, and the guard's operands
};

/// A tile of `vectors` vectors of these lanes.
inline cuda_tile tile_with(const plan::lanes& of, int vectors) {
  cuda_tile t;
  static_cast<plan::lanes&>(t) = of;
  t.vectors = vectors;
  return t;
}

class cuda_printer {
 public:
  /// `first` is the number of the kernel's first buffer among the parameters.
  cuda_printer(const kernel& k, writer& out, int first = 0) : cuda_printer(k, out, first, needs_wide_index(k)) {}
  cuda_printer(const kernel& k, writer& out, int first, bool wide)
      : k_(k),
        out_(out),
        inner_(k.mask(role::inner)),
        row_(k.mask(role::row)),
        wide_(wide),
        calls_(calls_functions(k)),
        once_(!stores_much(k)),
        first_(first) {}

  writer& out() const { return out_; }
  /// Buffers that the text printed so far reads or writes.
  const sorted_set<int>& touched() const { return touched_; }
  int first_buffer() const { return first_; }
  const kernel& code() const { return k_; }
  int size() const { return static_cast<int>(k_.body.size()); }
  const instruction& at(int id) const { return k_.body[static_cast<std::size_t>(id)]; }
  std::uint32_t inner() const { return inner_; }
  std::uint32_t row() const { return row_; }
  std::string idx() const { return wide_ ? "long" : "int"; }
  static std::string number(std::int64_t n) { return std::to_string(n); }
  static std::string name(int id) { return "v" + std::to_string(id); }
  static std::string acc(int id) { return "a" + std::to_string(id); }
  /// The combiner of `id`, named after the first reduction with the same combiner.
  std::string fold(int id) const {
    int first = 0;
    while (!combines_alike(k_, first, id) || accumulator_type(first) != accumulator_type(id)) ++first;
    return "c" + number(first);
  }
  static std::string axis(std::size_t a) { return "i" + std::to_string(a); }
  std::string extent(std::size_t a) const { return parenthesised(k_.axes[a].extent); }
  series<std::size_t> axes_of(role r) const {
    series<std::size_t> out;
    for (std::size_t a = 0; a < k_.axes.size(); ++a)
      if (k_.axes[a].role == r) out.push_back(a);
    return out;
  }

  bool is_uniform(int id) const { return plan::is_uniform(k_, id); }
  bool varies(const plan::store& s, std::uint32_t axes) const { return plan::varies(k_, s, axes); }
  bool is_uniform_store(const plan::store& s) const { return plan::is_uniform_store(k_, s); }

  // Values in scope

  bool knows(int id) const { return known_.count(id) > 0; }
  void mark_defined(int id) { known_.insert(id); }
  sorted_set<int> scope() const { return known_; }
  void leave(sorted_set<int> outer) { known_ = std::move(outer); }
  /// Loads repeat, so none bypasses the caches.
  void read_repeatedly() { once_ = false; }
  void hold(int id) { held_.insert(id); }
  void drop(int id) { held_.erase(id); }
  /// Loads with one vector for all positions of a tile.
  void read_once(const series<int>& loads, cuda_tile t) {
    t.vectors = 1;
    read(loads, t);
    single_.insert(loads.begin(), loads.end());
  }

  /// Declares the axes `order` from a flat position, whose unit is `width` elements of the last of them.
  void unravel(const std::string& flat, const series<std::size_t>& order, std::int64_t width = 1) {
    dim below = 1;
    for (std::size_t j = order.size(); j-- > 0;) {
      const bool last = j + 1 == order.size();
      dim n = k_.axes[order[j]].extent;
      if (j > 0 && last) n = vectors_of_row(n, static_cast<int>(width));
      std::string value = below.is(1) ? flat : flat + "/" + count(below);
      if (j > 0) value = (below.is(1) ? value : "(" + value + ")") + "%" + count(n);
      if (last && width > 1) value = "(" + value + ")*" + number(width);
      out_.line("const " + idx() + " " + axis(order[j]) + " = " + value + ";");
      below *= n;
    }
  }
  /// A divisor; an extent 0 becomes 1, because no code runs then.
  std::string count(const dim& n) const {
    if (n.is(0)) return "1";
    return n.is_number() ? n.text() + (wide_ ? "" : "u") : "(" + n.text() + ")";
  }
  /// A bound of flat positions.
  std::string limit(const dim& n) const { return n.is(0) ? "0" : count(n); }
  /// The type of flat positions: unsigned division is faster.
  std::string flat() const { return wide_ ? "long" : "unsigned"; }

  std::string pointer(int buffer) const {
    touched_.insert(buffer);
    const std::string p = "p" + std::to_string(first_ + buffer);
    return k_.buffers[static_cast<std::size_t>(buffer)].by_value ? "(&" + p + ")" : p;
  }
  std::string offset(const plan::affine& a) const {
    std::string text = index_text(a, [](std::size_t) { return true; });
    if (a.index >= 0) text += " + " + scaled(a.indirect, name(a.index));
    return text;
  }
  std::string address(const plan::access& a) const { return pointer(a.buffer) + " + (" + offset(a.at) + ")"; }

  /// A literal whose bits are a number that a launch supplies.
  static std::string of_bits(const instruction& i) {
    const std::string bits = i.at.at.offset.text();
    if (!is_float(i.type)) return "(" + scalar_type(i.type) + ")" + bits;
    return i.type == dtype::f64 ? "__longlong_as_double(" + bits + ")" : "__int_as_float((int)" + bits + ")";
  }

  /// Prints a value that is not a load of a tile; `lane` is the axis that `l` counts along, or -1.
  void define(int id, int lane) {
    const auto& i = at(id);
    std::string value;
    if (i.kind == kind::literal) {
      value = i.at.at.offset.is(0) ? cuda_literal(i.type, i.literal) : of_bits(i);
    } else if (i.kind == kind::position) {
      value = position(i.at.at, lane);
    } else if (i.kind == kind::inside) {
      value = inside(i, lane);
    } else if (i.kind == kind::load) {
      value = "load1(" + address(i.at) + ")";
      if (is_guarded(i))
        value = (knows(i.args[0]) ? name(i.args[0]) : inside(at(i.args[0]), lane)) + " ? " + value + " : " +
                scalar_type(i.type) + "{}";
    } else {
      series<std::string> args;
      const bool narrow = !wide_ && compares_positions(k_, i);
      for (int a : i.args)
        args.push_back(!narrow ? name(a) : is_position(at(a)) ? "(s_i32)" + name(a) : "sx::place(" + name(a) + ")");
      value = calls_ && is_costly(i)
                  ? called_name(i) + "(" + comma_separated(args) + ")"
                  : cuda_expression(i.code, i.type, args, i.args.empty() ? i.type : at(i.args[0]).type);
    }
    out_.at(i.where);
    out_.line("const " + scalar_type(i.type) + " " + name(id) + " = " + value + ";");
    known_.insert(id);
  }
  std::string position(const plan::affine& a, int lane) const {
    std::string text = offset(a);
    if (lane >= 0 && !a.stride[static_cast<std::size_t>(lane)].is(0))
      text += " + " + scaled(a.stride[static_cast<std::size_t>(lane)], "l");
    return text;
  }

  /// Whether all ranges hold; `l` counts along the axis `lane`, if there is one.
  std::string inside(const instruction& i, int lane) const {
    const std::string unsigned_type = wide_ ? "(s_u64)(" : "(s_u32)(";
    std::string text;
    for (const auto& r : i.ranges)
      text += (text.empty() ? "" : " && ") + unsigned_type + position(r.at, lane) + ") < " + unsigned_type +
              r.extent.text() + ")";
    return "(" + text + ")";
  }

  /// Defines scalars that `wanted` accepts, if their operands are known.
  template <class F>
  void define_scalars(F&& wanted) {
    for (int id = 0; id < size(); ++id)
      if (!knows(id) && !is_reduction(at(id)) && at(id).kind != kind::product && wanted(id)) define(id, -1);
  }
  void uniform_values() {
    define_scalars([&](int id) { return is_uniform(id); });
  }
  void uniform_stores() {
    if (!has_uniform_stores(k_)) return;
    out_.block("if (block == 0 && threadIdx.x == 0)", [&] {
      for (const auto& s : k_.stores)
        if (is_uniform_store(s)) store_scalar(s);
    });
  }
  void store_scalar(const plan::store& s) { out_.line("store1(" + address(s.at) + ", " + name(source_of(s)) + ");"); }
  /// The value from which a store encodes.
  int source_of(const plan::store& s) const { return knows(s.value) ? s.value : plan::encoded(k_, s); }

  /// "const auto c4 = …", unless an earlier reduction has declared it.
  void declare_fold(int id) {
    if (fold(id) != "c" + number(id)) return;
    const auto& i = at(id);
    const std::string t = accumulator_type(id);
    const std::string body = i.kind == kind::arg_reduce
                                 ? std::string("better<") + (i.code == ir::op::maximum ? "true" : "false") + ">(a, b)"
                                 : "(" + t + ")(" + cuda_expression(i.code, i.type, {"a", "b"}, i.type) + ")";
    out_.line("const auto " + fold(id) + " = [](" + t + " a, " + t + " b) { return " + body + "; };");
  }
  std::string accumulator_type(int id) const {
    const auto& i = at(id);
    if (i.kind == kind::arg_reduce) return "extreme<" + scalar_type(at(i.args[0]).type) + ">";
    return is_wide(k_, id) ? "s_f64" : scalar_type(i.type);
  }
  std::string initial(int id) const {
    return at(id).kind == kind::arg_reduce ? accumulator_type(id) + "{0, -1}" : cuda_identity(at(id));
  }
  /// The contribution of an element, as an accumulator.
  std::string contribution(int id, int lane) const {
    const auto& i = at(id);
    const std::string x = name(i.args[0]);
    if (i.squares) return "(s_f64)" + x + "*(s_f64)" + x;
    if (i.kind != kind::arg_reduce) return x;
    return accumulator_type(id) + "{" + name(i.args[0]) + ", " + position(i.at.at, lane) + "}";
  }
  void accumulate(int id, const std::string& into, int lane) {
    out_.line(into + " = " + fold(id) + "(" + into + ", " + contribution(id, lane) + ");");
  }

  /// The values that the work must compute, in order, except those in scope; `loads` of them are read first.
  series<int> remaining(const plan::work& w) const { return plan::needed(k_, w, known_, held_); }

  bool has_lanes(int id, const cuda_tile& t) const { return t.width > 1 && (at(id).axes >> t.axis & 1u); }
  int width_of(int id, const cuda_tile& t) const { return has_lanes(id, t) ? t.width : 1; }
  bool is_indirect(int id) const { return at(id).kind == kind::load && at(id).at.at.index >= 0; }

  /// Declares the packs of loads, and reads those that need no index; they are held from then on.
  void read(const series<int>& loads, const cuda_tile& t, const std::string& array = "x") {
    for (int id : loads) {
      declare_pack(id, t, array);
      held_.insert(id);
    }
    read_again(loads, t, array);
  }
  void declare_pack(int id, const cuda_tile& t, const std::string& array = "x") {
    out_.line("pack<" + number(width_of(id, t)) + ", " + memory_type(at(id).type) + "> " + array + number(id) + "[" +
              number(t.vectors) + "];");
  }
  void read_again(const series<int>& loads, const cuda_tile& t, const std::string& array = "x") {
    series<int> direct;
    for (int id : loads)
      if (!is_indirect(id) || knows(at(id).at.at.index)) direct.push_back(id);
    if (direct.empty()) return;
    over_vectors(t, [&](const cuda_tile& part) {
      for (int id : direct) out_.line(array + number(id) + "[u] = " + loaded(id, part) + ";");
    });
  }

  /// Prints `inside` for the positions of a tile. Where whole vectors fill the first of them, only the last is guarded.
  template <class F>
  void over_vectors(const cuda_tile& t, F&& inside) {
    if (t.filled == 0) return over_vectors(t, 0, inside);
    cuda_tile first = t, last = t;
    first.vectors = t.filled;
    first.in_part = false;
    first.guard = t.filled_guard;
    over_vectors(first, 0, inside);
    if (t.filled < t.vectors) over_vectors(last, t.filled, inside);
  }
  template <class F>
  void over_lanes(const cuda_tile& t, F&& inside) {
    if (t.width == 1) return inside();
    out_.line("#pragma unroll");
    out_.block("for (int l = 0; l < " + number(t.width) + "; ++l)", inside);
  }

  /// Prints a pass: loads first, then values, sums and stores. `keep` are values for later passes; `into` names the
  /// accumulator of a reduction, where `l` counts lanes.
  template <class Into, class Store>
  void pass(const cuda_tile& t, const plan::work& w, const sorted_set<int>& keep, Into&& into, Store&& other_store) {
    const auto ids = remaining(w);
    series<int> loads, late;
    for (int id : ids)
      if (at(id).kind == kind::load && !held_.count(id)) loads.push_back(id);
    read(loads, t);
    for (int id : loads)
      if (is_indirect(id) && !knows(at(id).at.at.index)) late.push_back(id);
    for (const auto& level : load_levels(k_, late))
      over_vectors(t, [&](const cuda_tile& part) { read_at_indices(level, part); });
    for (int id : keep)
      if (at(id).kind != kind::load && !held_.count(id) && std::count(ids.begin(), ids.end(), id))
        out_.line(scalar_type(at(id).type) + " k" + number(id) + "[" + number(t.vectors) + "][" +
                  number(width_of(id, t)) + "];");
    over_vectors(t, [&](const cuda_tile& part) { print_work(part, w, ids, keep, into, other_store); });
    for (int id : keep)
      if (std::count(ids.begin(), ids.end(), id)) held_.insert(id);
    for (int id : loads)
      if (!keep.count(id)) held_.erase(id);
  }

 private:
  template <class F>
  void over_vectors(const cuda_tile& t, int from, F&& inside) {
    const auto outer = known_;
    auto guarded = [&] {
      t.place();
      if (t.in_part)
        out_.line("const " + idx() + " lanes = " + extent(static_cast<std::size_t>(t.axis)) + " - " +
                  axis(static_cast<std::size_t>(t.axis)) + ";");
      if (t.guard.empty()) inside(t);
      else out_.block("if (" + t.guard + ")", [&] { inside(t); });
    };
    if (t.vectors > from + 1) out_.line("#pragma unroll");
    out_.block("for (int u = " + number(from) + "; u < " + number(t.vectors) + "; ++u)", guarded);
    known_ = outer;
  }
  /// Prints the values, sums and stores of a pass at a position.
  template <class Into, class Store>
  void print_work(const cuda_tile& t, const plan::work& w, const series<int>& ids, const sorted_set<int>& keep,
                  Into&& into, Store&& other_store) {
    for (int id : ids)
      if (!has_lanes(id, t)) value(id, t, keep);
    const int lane = t.width > 1 ? t.axis : -1;
    for (const auto* s : w.stores)
      if (stores_lanes(*s, t))
        out_.line("pack<" + number(t.width) + ", " + memory_type(type_of(k_, s->at)) + "> " + packed(*s) + ";");
    const auto outside = known_;
    over_lanes(t, [&] {
      for (int id : ids)
        if (has_lanes(id, t)) value(id, t, keep);
      if (!w.reductions.empty())
        where_lane_is(t, [&] {
          for (int id : w.reductions) accumulate(id, into(id), lane);
        });
      for (const auto* s : w.stores) {
        if (stores_lanes(*s, t)) out_.line("put(" + packed(*s) + ", l, " + name(source_of(*s)) + ");");
        else if (s->accumulate) where_lane_is(t, [&] { other_store(*s, lane, name(s->value)); });
      }
    });
    known_ = outside;
    for (const auto* s : w.stores)
      if (!s->accumulate) store_vector(*s, t);
      else if (stores_lanes(*s, t)) other_store(*s, -1, packed(*s));
  }
  /// Prints what may happen only in lanes that a vector has.
  template <class F>
  void where_lane_is(const cuda_tile& t, F&& inside) {
    if (t.in_part) out_.block("if (l < lanes)", inside);
    else inside();
  }
  bool stores_lanes(const plan::store& s, const cuda_tile& t) const {
    if (t.width == 1 || s.at.at.stride[static_cast<std::size_t>(t.axis)].is(0)) return false;
    if (!s.accumulate) return true;
    return !t.in_part && (s.combiner == ir::op::add || s.combiner == ir::op::identity) &&
           adds_vector(k_, s.at, t.axis, t.width);
  }
  std::string packed(const plan::store& s) const { return "y" + number(&s - k_.stores.data()); }

  std::string loaded(int id, const cuda_tile& t) const {
    if (!is_guarded(at(id))) return unguarded(id, t);
    const auto& a = at(id).at;
    const int w = width_of(id, t), guard = at(id).args[0];
    if (w == 1 || !(at(guard).axes >> t.axis & 1u))
      return inside(at(guard), -1) + " ? " + unguarded(id, t) + " : pack<" + number(w) + ", " +
             memory_type(at(id).type) + ">{}";
    return "load_where<" + number(w) + ">(" + address(a) + ", " + a.at.stride[static_cast<std::size_t>(t.axis)].text() +
           ", [&](int l) { return " + (t.in_part ? "l < lanes && " : "") + inside(at(guard), t.axis) + "; })";
  }
  std::string unguarded(int id, const cuda_tile& t) const {
    const auto& a = at(id).at;
    const int w = width_of(id, t);
    if (w == 1) return "load<1>(" + address(a) + ")";
    const bool once = once_ && touches_once(k_, a), is_vector = is_vector_access(k_, a, t.axis, w);
    if (is_vector && t.in_part)
      return "load_part<" + number(w) + (once ? ", true>(" : ", false>(") + address(a) + ", lanes)";
    if (is_vector) return (once ? "load_once<" : "load<") + number(w) + ">(" + address(a) + ")";
    if (t.in_part)
      return "load_where<" + number(w) + ">(" + address(a) + ", " +
             a.at.stride[static_cast<std::size_t>(t.axis)].text() + ", [&](int l) { return l < lanes; })";
    return "load_strided<" + number(w) + ">(" + address(a) + ", " +
           a.at.stride[static_cast<std::size_t>(t.axis)].text() + ")";
  }

  void read_at_indices(const series<int>& late, const cuda_tile& t) {
    sorted_set<int> before;
    auto visit = [&](auto&& self, int id) -> void {
      if (known_.count(id) || !before.insert(id).second || held_with_value(id)) return;
      for (int a : at(id).args) self(self, a);
    };
    for (int id : late) visit(visit, at(id).at.at.index);
    for (int id : before)
      if (!has_lanes(id, t)) value(id, t, {});
    for (int id : late)
      if (!has_lanes(at(id).at.at.index, t)) out_.line("x" + number(id) + "[u] = " + loaded(id, t) + ";");
    const auto outside = known_;
    bool any = false;
    for (int id : late) any = any || has_lanes(at(id).at.at.index, t);
    if (any)
      over_lanes(t, [&] {
        for (int id : before)
          if (has_lanes(id, t)) value(id, t, {});
        for (int id : late) {
          if (!has_lanes(at(id).at.at.index, t)) continue;
          const dim& step = at(id).at.at.stride[static_cast<std::size_t>(t.axis)];
          std::string guard = is_guarded(at(id)) ? inside(at(at(id).args[0]), t.axis) : "";
          if (t.in_part) guard = "l < lanes" + (guard.empty() ? "" : " && " + guard);
          if (!guard.empty()) guard += " ? ";
          out_.line("x" + number(id) + "[u].e[l] = " + guard + pointer(at(id).at.buffer) + "[" + offset(at(id).at.at) +
                    (step.is(0) ? "" : " + " + scaled(step, "l")) + "]" +
                    (guard.empty() ? "" : " : " + memory_type(at(id).type) + "{}") + ";");
        }
      });
    known_ = outside;
  }
  bool held_with_value(int id) const { return held_.count(id) && at(id).kind != kind::load; }

  /// A value at position u, lane l.
  void value(int id, const cuda_tile& t, const sorted_set<int>& keep) {
    const auto& i = at(id);
    if (knows(id)) return;
    const std::string lane = has_lanes(id, t) ? "l" : "0", type = "const " + scalar_type(i.type) + " ";
    if (i.kind == kind::load) {
      out_.line(type + name(id) + " = get(x" + number(id) + (single_.count(id) ? "[0], " : "[u], ") + lane + ");");
      known_.insert(id);
      return;
    }
    const std::string kept = "k" + number(id) + "[u][" + lane + "]";
    if (held_.count(id)) {
      out_.line(type + name(id) + " = " + kept + ";");
      known_.insert(id);
      return;
    }
    define(id, has_lanes(id, t) ? t.axis : -1);
    if (keep.count(id)) out_.line(kept + " = " + name(id) + ";");
  }

  void store_vector(const plan::store& s, const cuda_tile& t) {
    if (!stores_lanes(s, t)) return store_scalar(s);
    if (t.in_part)
      return void(out_.line("store_part(" + address(s.at) + ", " +
                            s.at.at.stride[static_cast<std::size_t>(t.axis)].text() + ", " + packed(s) + ", lanes);"));
    if (is_vector_access(k_, s.at, t.axis, t.width))
      return void(out_.line("store(" + address(s.at) + ", " + packed(s) + ");"));
    out_.line("store_strided(" + address(s.at) + ", " + s.at.at.stride[static_cast<std::size_t>(t.axis)].text() + ", " +
              packed(s) + ");");
  }

  const kernel& k_;
  writer& out_;
  std::uint32_t inner_, row_;
  bool wide_, calls_, once_;
  int first_;
  sorted_set<int> known_;  ///< values with a name in scope
  mutable sorted_set<int> touched_;
  sorted_set<int> single_;
  sorted_set<int> held_;  ///< values with an array in scope, for every position of the tile
};

}  // namespace sinter::engine::emit
