// emit/cpu/body.hpp: one scalar operation of a kernel -> one C++ statement on vectors or scalars.
#pragma once

#include "../../base/series.hpp"
#include "../../base/sorted.hpp"
#include "../text.hpp"

namespace sinter::engine::emit {

/// Sums of f32 are added to a total in f64 after this many vectors of each part of a row, and after this many rows. So their
/// error does not grow with the number of addends. Short rows, and few rows, of known number need no total.
inline constexpr std::int64_t fold_vectors = 128, max_unfolded = 16 << 10, fold_rows = 32, fold_elements = 2048;

/// A kernel runs on all threads if each, or each of eight, has this much work, in units of 0.15 ns. A parallel region takes
/// some microseconds.
inline constexpr std::int64_t thread_work = 32 << 10;

/// The cost of an element, in units of 0.15 ns: a load, a store and two operations each cost one.
inline std::int64_t element_cost(const kernel& k) {
  std::int64_t quarters = static_cast<std::int64_t>(k.stores.size());
  for (const auto& i : k.body) {
    const bool searches = i.kind == kind::sort || i.kind == kind::search;
    const bool costly = i.kind == kind::compute && ir::is_expensive(i.code);
    quarters += searches ? 64 : costly ? 16 : i.kind == kind::load || i.kind == kind::compute ? 1 : 0;
  }
  return std::max<std::int64_t>(1, quarters / 4);
}

/// The pragma for a kernel's outermost loop; empty if the work is known to be too little for several threads.
SINTER_API std::string omp_for(const kernel& k, const std::string& directive = "parallel for schedule(static)") {
  ir::dim total = 1;
  for (const auto& a : k.axes) total *= a.extent;
  const std::int64_t cost = element_cost(k);
  const std::string pragma = "#pragma omp " + directive;
  if (const auto n = total.number()) {
    if (*n <= (2 * thread_work - 1) / cost) return "";
    if (*n > 8 * thread_work / cost) return pragma;
  }
  return pragma + " if (shares((" + total.text() + ")*" + std::to_string(cost) + "))";
}

/// The functions called by a kernel of many costly operations, for vectors and for scalars; "" for other kernels.
SINTER_API std::string called_functions(const kernel& k) {
  sorted_set<std::string> all;
  if (!calls_functions(k)) return "";
  for (const auto& i : k.body)
    for (const auto type_of : {vector_type, scalar_type})
      if (is_costly(i))
        all.insert("static __attribute__((noinline)) " + called_function(k, i, type_of, [&](const auto& args) {
                     return substitute(ir::row(i.code).value, args, type_of(i.type));
                   }));
  return joined_text(all);
}

/// Declares the positions on `axes` from their flat position; `extent` gives an axis's extent as an operand.
template <class Extent>
void print_unraveled(const std::string& flat, const series<std::size_t>& axes, Extent&& extent, writer& out) {
  std::string divisor;
  for (std::size_t j = axes.size(); j-- > 0;) {
    const std::string n = extent(axes[j]);
    std::string value = divisor.empty() ? flat : flat + "/(" + divisor + ")";
    if (j > 0) value = "(" + value + ")%" + n;
    out.line("const long i" + std::to_string(axes[j]) + " = " + value + ";");
    divisor += (divisor.empty() ? "" : "*") + n;
  }
}

/// Prints the values of a kernel. Values that vary within a row are vectors along the last axis. In a kernel of columns,
/// values that vary among columns are. After a matrix product, all values except uniform ones are.
class body_printer {
 public:
  body_printer(const kernel& k, writer& out)
      : k_(k),
        out_(out),
        inner_(k.mask(role::inner)),
        last_(static_cast<int>(k.vector_axis())),
        calls_(calls_functions(k)) {
    find_numbers();
    if (k.columns) inner_ = 1u << last_;
    if (k.is_product()) {
      inner_ = ~0u;
      if (last_ < k.products[0].batch + k.products[0].m) last_ = -1;
    }
    // g++ takes each lane's address as a variable when it chooses induction variables. Its time grows faster than their
    // number: a few hundred take a minute.
    constexpr std::ptrdiff_t max_inline = 16;
    strides_apart_ =
        std::count_if(k.body.begin(), k.body.end(), [&](const instruction& i) {
          return i.kind == kind::load && !scattered(i.at.at) && !step(i.at.at).is(0) && !step(i.at.at).is(1);
        }) > max_inline;
  }

  /// How a guarded load is printed if its guard varies among the lanes, or holds at most positions.
  enum class guards {
    lanes,  ///< a guard is a vector
    cut,    ///< loops are cut where a guard changes, so that it is a number in each piece
    met,    ///< the same, and guards that hold at most positions hold
  };
  void print_guards(guards g) { guards_ = g; }
  /// Makes every value a number.
  void print_numbers() { inner_ = 0; }
  /// Makes values that vary along an axis vectors along it.
  void print_along(int axis) {
    inner_ = 1u << axis;
    last_ = axis;
  }

  bool is_vector(int id) const { return (at(id).axes & inner_) != 0; }
  const instruction& at(int id) const { return k_.body[static_cast<std::size_t>(id)]; }

  static std::string name(int id) { return "v" + std::to_string(id); }

  /// A value as an operand of a vector or of a scalar statement.
  std::string operand(int id, bool vector) const {
    if (at(id).kind == kind::inside && (guards_ != guards::lanes || !is_vector(id))) {
      const std::string met = guards_ == guards::met && is_likely(at(id)) ? "true" : name(id);
      return vector ? "splat<v_b8>(" + met + ")" : met;
    }
    const std::string value = is_read_late(id) ? "load1((const " + memory_type(at(id).type) + "*)buffers[" +
                                                     std::to_string(at(id).at.buffer) + "])"
                                               : name(id);
    return !vector || is_vector(id) ? value : "splat<" + vector_type(at(id).type) + ">(" + value + ")";
  }

  /// The addend of an element in a reduction.
  std::string addend(const instruction& i, bool vector) const {
    const std::string x = operand(i.args[0], vector);
    return i.squares ? std::string("square_as<") + (vector ? "v" : "s") + "_f64>(" + x + ")" : x;
  }

  std::string pointer(int buffer) const { return "p" + std::to_string(buffer); }

  /// buffer + offset; a vector access includes the vector axis, at the first lane.
  std::string address(const plan::access& a) const {
    std::string offset = index_text(a.at, [](std::size_t) { return true; });
    if (a.at.index >= 0 && !is_vector(a.at.index)) offset += " + " + scaled(a.at.indirect, name(a.at.index));
    return pointer(a.buffer) + " + (" + offset + ")";
  }

  /// Per-lane offsets of an access whose index is a vector.
  std::string lane_offsets(const plan::affine& a) const {
    std::string text = scaled(a.indirect, operand(a.index, true));
    const dim step = last_ >= 0 ? a.stride[static_cast<std::size_t>(last_)] : dim(0);
    if (!step.is(0)) text += " + lanes()*(" + step.text() + ")";
    return text;
  }

  bool scattered(const plan::affine& a) const { return a.index >= 0 && is_vector(a.index); }
  dim step(const plan::affine& a) const { return last_ >= 0 ? a.stride[static_cast<std::size_t>(last_)] : dim(0); }

  /// "v3 ? load(…) : v_f32{}", or with a vector of flags for the lanes to load.
  std::string guarded(const instruction& i, bool vector, bool tail) const {
    const int guard = i.args[0];
    const std::string when = operand(guard, false), type = vector ? vector_type(i.type) : scalar_type(i.type);
    if (when == "true") return unguarded(i, vector, tail);
    if (!vector || !is_vector(guard) || guards_ != guards::lanes)
      return "(" + when + " ? " + unguarded(i, vector, tail) + " : " + type + "{})";
    const std::string n = tail ? ", n" : "";
    if (scattered(i.at.at))
      return "load_at_where(" + address(i.at) + ", " + lane_offsets(i.at.at) + ", " + when + n + ")";
    return (strides_apart_ ? "load_where_apart(" : "load_where(") + address(i.at) + ", " + step(i.at.at).text() + ", " +
           when + n + ")";
  }
  std::string load(const instruction& i, bool vector, bool tail) const {
    return is_guarded(i) ? guarded(i, vector, tail) : unguarded(i, vector, tail);
  }
  std::string unguarded(const instruction& i, bool vector, bool tail) const {
    const std::string n = tail ? ", n" : "";
    if (!vector) return "load1(" + address(i.at) + ")";
    if (scattered(i.at.at)) return "load_at(" + address(i.at) + ", " + lane_offsets(i.at.at) + n + ")";
    const dim s = step(i.at.at);
    if (s.is(0)) return "splat<" + vector_type(i.type) + ">(load1(" + address(i.at) + "))";
    if (s.is(1)) return "load(" + address(i.at) + n + ")";
    constexpr std::int64_t max_parts = 8, max_masked = 4;
    if (const auto by = s.number().value_or(0); by >= 2 && by <= (tail ? max_masked : max_parts))
      return "load_every<" + s.text() + ">(" + address(i.at) + n + ")";
    const char* const call = strides_apart_ ? "load_strided_apart(" : "load_strided(";
    return call + address(i.at) + ", " + s.text() + n + ")";
  }

  std::string position(const instruction& i, bool vector) const {
    const auto& a = i.at.at;
    const std::string base = index_text(a, [](std::size_t) { return true; });
    if (!vector) return a.index < 0 ? base : base + " + " + scaled(a.indirect, name(a.index));
    std::string text = "splat<v_i64>(" + base + ")";
    if (!step(a).is(0)) text += " + lanes()*(" + step(a).text() + ")";
    if (a.index >= 0) text += " + " + scaled(a.indirect, operand(a.index, true));
    return text;
  }

  /// Whether a guard holds, with `along` for the vector's axis; "": at its first lane.
  std::string inside(const instruction& i, const std::string& along = "") const {
    std::string text;
    for (const auto& r : i.ranges) {
      std::string at = index_text(r.at, [&](std::size_t a) { return along.empty() || static_cast<int>(a) != last_; });
      if (!along.empty() && !step(r.at).is(0)) at += " + " + scaled(step(r.at), along);
      text += (text.empty() ? "" : " && ") + ("(s_u64)(" + at + ") < (s_u64)(" + r.extent.text() + ")");
    }
    return text;
  }
  std::string lanes_inside(const instruction& i) const {
    std::string text;
    for (const auto& r : i.ranges)
      text += (text.empty() ? "" : " & ") + ("within(" + index_text(r.at, [](std::size_t) { return true; }) + ", " +
                                             step(r.at).text() + ", " + r.extent.text() + ")");
    return text;
  }

  /// A literal whose bits are a number that a call supplies.
  static std::string of_bits(const instruction& i) {
    const std::string type = scalar_type(i.type), bits = i.at.at.offset.text();
    if (!is_float(i.type)) return "(" + type + ")" + bits;
    return "__builtin_bit_cast(" + type + ", (" + (i.type == dtype::f64 ? "s_i64" : "s_i32") + ")" + bits + ")";
  }

  std::string compute(const instruction& i, bool vector) const {
    if (i.args.size() == 3 && at(i.args[0]).kind == kind::inside && (guards_ != guards::lanes || !vector)) {
      const std::string when = operand(i.args[0], false), made = operand(i.args[1], vector);
      return when == "true" ? made : when + " ? " + made + " : " + operand(i.args[2], vector);
    }
    series<std::string> args;
    for (int a : i.args) args.push_back(operand(a, vector));
    if (calls_ && is_costly(i)) return called_name(i) + "(" + comma_separated(args) + ")";
    const std::string type = vector ? vector_type(i.type) : scalar_type(i.type);
    std::string text = substitute(ir::row(i.code).value, args, type);
    if (ir::row(i.code).rule == ir::dtype_rule::conversion && is_narrow(i.type))
      text = "round_" + element_name(i.type) + "(" + text + ")";
    return text;
  }

  std::string combine(ir::op combiner, const std::string& a, const std::string& b) const {
    return substitute(ir::row(combiner).value, {a, b}, "");
  }

  bool varies(const plan::store& s, std::uint32_t axes) const { return plan::varies(k_, s, axes); }

  /// "const v_f32 v7 = …;"
  void define(int id, bool vector, bool tail) {
    const instruction& i = at(id);
    if (is_read_late(id)) return;
    if (i.kind == kind::inside && vector && guards_ != guards::lanes) return;  // a number of the loop's piece
    std::string value;
    switch (i.kind) {
      case kind::inside:
        value = vector ? lanes_inside(i) : inside(i);
        break;
      case kind::literal:
        value = i.at.at.offset.is(0) ? literal(compute_type(i.type), i.literal) : of_bits(i);
        if (vector) value = "splat<" + vector_type(i.type) + ">(" + value + ")";
        break;
      case kind::position:
        value = position(i, vector);
        break;
      case kind::load:
        value = load(i, vector, tail);
        break;
      default:
        value = compute(i, vector);
    }
    out_.at(i.where);
    out_.line("const " + (vector ? vector_type(i.type) : scalar_type(i.type)) + " " + name(id) + " = " + value + ";");
  }

  /// `stream` is whether the store bypasses the caches: "" never, "true" always, else a condition on the sizes.
  void store(const plan::store& s, bool vector, bool tail, const std::string& stream) {
    const std::string n = tail ? ", n" : "";
    const std::string value = operand(s.value, vector);
    if (s.accumulate) return accumulate(s, vector, tail);
    const dim by = step(s.at.at);
    if (!vector) out_.line("store1(" + address(s.at) + ", " + value + ");");
    else if (by.is(1) && !stream.empty() && !tail)
      out_.line((stream == "true" ? "" : "if (" + stream + ") ") + "store_stream(" + address(s.at) + ", " + value +
                ");" + (stream == "true" ? "" : " else store(" + address(s.at) + ", " + value + ");"));
    else if (by.is(1)) out_.line("store(" + address(s.at) + ", " + value + n + ");");
    else out_.line("store_strided(" + address(s.at) + ", " + by.text() + ", " + value + n + ");");
  }

 private:
  /// Very many numbers from memory, as values outside the loops, would all be live inside. That costs compilers seconds, and
  /// loops a spill each. So numbers that are only operands of arithmetic are read where they are used.
  void find_numbers() {
    constexpr std::ptrdiff_t max_early = 64;
    series<char> late;
    for (const auto& i : k_.body)
      late.push_back(i.kind == kind::load && !is_guarded(i) && i.axes == 0 && is_float(i.type) && i.at.at.offset.is(0));
    for (const auto& i : k_.body)
      if (i.kind != kind::compute)
        for (const int a : i.args) late[static_cast<std::size_t>(a)] = 0;
    for (const auto& s : k_.stores) {
      const auto& by = s.at.at.stride;
      const bool one = std::all_of(by.begin(), by.end(), [](const dim& d) { return d.is(0); });
      if (one) return;  // it may take the memory of one of them
      late[static_cast<std::size_t>(s.value)] = 0;
    }
    if (std::count(late.begin(), late.end(), 1) > max_early) read_late_ = std::move(late);
  }
  bool is_read_late(int id) const { return !read_late_.empty() && read_late_[static_cast<std::size_t>(id)]; }

  /// The new value of an element with the value `there` after combining with `value`.
  std::string met(const plan::store& s, const std::string& there, const std::string& value) const {
    if (s.combiner == ir::op::identity) return value;
    return s.combiner == ir::op::add ? there + " + " + value : combine(s.combiner, there, value);
  }
  void accumulate(const plan::store& s, bool vector, bool tail) {
    const std::string bound = s.bound.text(), index = name(s.at.at.index);
    const std::string memory = "const auto q = " + address(s.at) + ";";
    if (!vector) {
      out_.line("if ((s_u64)" + index + " < (s_u64)(" + bound + ")) { " + memory + " store1(q, " +
                met(s, "load1(q)", name(s.value)) + "); }");
    } else if (!scattered(s.at.at) && step(s.at.at).is(1)) {
      const std::string n = tail ? ", n" : "";
      out_.line("if ((s_u64)" + index + " < (s_u64)(" + bound + ")) { " + memory + " store(q, " +
                met(s, "load(q" + n + ")", operand(s.value, true)) + n + "); }");
    } else {
      // Lanes in order, because two may refer to one element.
      const std::string at_lane = scattered(s.at.at) ? "[l]" : "";
      out_.block("for (long l = 0; l < " + std::string(tail ? "n" : "SINTER_W") + "; ++l)", [&] {
        out_.line("if ((s_u64)" + index + at_lane + " >= (s_u64)(" + bound + ")) continue;");
        out_.line("const auto q = " + address(s.at) +
                  (scattered(s.at.at) ? " + " + scaled(s.at.at.indirect, index + at_lane) : "") + " + l*(" +
                  step(s.at.at).text() + ");");
        const std::string lane = is_bool(at(s.value).type) ? ".m[l] != 0" : "[l]";
        out_.line("store1(q, " + met(s, "load1(q)", name(s.value) + (is_vector(s.value) ? lane : "")) + ");");
      });
    }
  }

  const kernel& k_;
  writer& out_;
  series<char> read_late_;  ///< per instruction; empty if none is read late
  std::uint32_t inner_;
  int last_;
  bool calls_;  ///< costly operations are calls
  guards guards_ = guards::lanes;
  bool strides_apart_ = false;  ///< loads of elements apart are calls
};

}  // namespace sinter::engine::emit
