// ir/ops/record.hpp: the members of a structural op's record, and their vocabulary.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <initializer_list>
#include <span>
#include <string>

#include "../../base/series.hpp"
#include "../../base/text.hpp"
#include "../graph.hpp"
#include "../value.hpp"
#include "lanes.hpp"
#include "words.hpp"

namespace sinter::ir::ops {

using axes_t = series<std::int64_t>;

/// A part of an error message. It becomes text only when the error is thrown, so that passing checks cost nothing.
class piece {
 public:
  piece(const char* s) : text_(s) {}
  piece(dtype t) : text_(dtype_name(t)) {}
  piece(op o) : text_(name(o)) {}
  piece(std::size_t n) : number_(static_cast<std::int64_t>(n)) {}
  piece(std::int64_t n) : number_(n) {}
  piece(const dim& d) : dim_(&d) {}
  piece(const shape& s) : shape_(&s) {}
  piece(const axes_t& v) : ints_(&v) {}

  std::string text() const {
    if (text_) return text_;
    if (dim_) return dim_->text();
    if (shape_) return text_of(*shape_);
    if (ints_) return "[" + text::join(*ints_, ", ", [](std::int64_t x) { return std::to_string(x); }) + "]";
    return std::to_string(number_);
  }

 private:
  const char* text_ = nullptr;
  std::int64_t number_ = 0;
  const dim* dim_ = nullptr;
  const shape* shape_ = nullptr;
  const axes_t* ints_ = nullptr;
};

/// One node under inference: its operands, and errors that name it.
struct inference {
  const graph& g;
  node& n;

  const node& operand(std::size_t k) const {
    if (k >= n.in.size()) malformed();
    return g[n.in[k]];
  }
  const shape& extents(std::size_t k = 0) const { return operand(k).extents; }
  std::size_t rank(std::size_t k = 0) const { return extents(k).size(); }

  [[noreturn, gnu::cold, gnu::noinline]] void refuse(std::initializer_list<piece> message) const {
    fail(name(n.code), text::join(message, "", [](const piece& p) { return p.text(); }), n.where);
  }
  [[noreturn, gnu::cold, gnu::noinline]] void malformed() const {
    throw internal_error("internal error: malformed operands or attributes of " + std::string(name(n.code)));
  }

  /// The counts that every builder provides: of operands, of ints and of dims.
  void expect(std::size_t operands, std::size_t ints, std::size_t dims) const {
    if (n.in.size() != operands || n.attr.ints.size() != ints || n.attr.dims.size() != dims) malformed();
  }
  std::size_t axis(std::size_t of_rank) const {
    const auto a = n.attr.ints[0];
    if (a < 0 || a >= static_cast<std::int64_t>(of_rank))
      refuse({"axis ", a, " of a tensor of rank ", of_rank, "; axes are 0 to rank - 1"});
    return static_cast<std::size_t>(a);
  }
  void numbers(dtype t) const {
    if (is_bool(t)) refuse({"takes numbers, not bool; cast with cast<T>(x)"});
  }
  void index_dtype(std::size_t k) const {
    const dtype t = operand(k).type;
    if (t != dtype::i32 && t != dtype::i64) refuse({"the index is ", t, "; cast it with cast<std::int64_t>(index)"});
  }
  /// True when operands j and k have equal rank, and equal extents off the axis.
  bool agree_off_axis(std::size_t j, std::size_t k, std::size_t axis) const {
    bool fits = rank(j) == rank(k);
    for (std::size_t i = 0; fits && i < rank(j); ++i) fits = i == axis || extents(j)[i] == extents(k)[i];
    return fits;
  }
  /// True for equal dims, and for dims that the trace assumes to be equal; a graph after its trace was checked before.
  bool may_agree(const dim& a, const dim& b) const {
    const dim gap = a - b;
    if (gap.is_number()) return gap.is(0);
    if (gap.lower_bound() > 0 || gap.upper_bound() < 0) return false;
    if (is_always_zero(gap)) return true;
    auto* const sizes = static_cast<open_sizes*>(sinter::detail::current_sizes());
    return !sizes || sizes->agree(a, b, n.where);
  }
  /// The axis of gather and scatter_add, whose index is operand 1.
  std::size_t indexed_axis() const {
    index_dtype(1);
    const std::size_t a = axis(rank());
    if (!agree_off_axis(0, 1, a))
      refuse({extents(), " and the index ", extents(1), " differ off axis ", a,
              "; broadcast_to gives the index the same extents"});
    return a;
  }
  /// The shapes of base, index and updates, which scatter into the base.
  void scattered() const {
    if (operand(2).type != n.type)
      refuse({"base is ", n.type, ", updates are ", operand(2).type, "; cast one with cast<T>(x)"});
    if (extents(1) != extents(2))
      refuse({"the index is ", extents(1), ", updates are ", extents(2), "; they must have one shape"});
    indexed_axis();
    n.extents = extents();
  }
  void refuse_empty_extreme(std::size_t a) const {
    if (extents()[a].is(0))
      refuse({n.attr.combiner == op::maximum ? "max" : "min", " of nothing: axis ", a, " of ", extents(),
              " is empty; test the extent before, or pad"});
  }
  /// Refuses a rank above max_rank, a negative extent, and sizes beyond any memory: a plan's sums of bytes must fit into 64
  /// bits.
  void check_result() const {
    if (n.extents.size() > static_cast<std::size_t>(max_rank))
      refuse(
          {"the result ", n.extents, " has rank ", n.extents.size(), "; the highest rank is ", std::int64_t{max_rank}});
    std::int64_t count = 1;
    for (const auto& e : n.extents) {
      if (e.upper_bound() < 0) refuse({"the result ", n.extents, " has a negative extent; extents are 0 or more"});
      if (e.is_number() && (__builtin_mul_overflow(count, std::max<std::int64_t>(*e.number(), 1), &count) ||
                            count > std::int64_t{1} << 56))
        refuse({"the result ", n.extents, " has more than 2^56 elements"});
    }
  }
};

/// A node to evaluate: its operands, and the values of size symbols.
struct evaluation {
  const node& n;
  series<const literal_array*> in;
  std::span<const std::int64_t> sizes;

  std::int64_t bound(std::size_t k) const { return n.attr.dims[k].evaluate(sizes); }
  std::size_t axis() const { return static_cast<std::size_t>(n.attr.ints[0]); }
};

/// A node of a graph to differentiate.
struct site {
  graph& g;
  node_id id;

  const node& n() const { return g[id]; }
  value in(std::size_t k) const { return k < n().in.size() ? value(g, n().in[k], n().where) : value(); }
  value result() const { return {g, id, n().where}; }
  std::int64_t axis() const { return n().attr.ints[0]; }
};

/// Tangents of a node's operands; empty for zero, but not all empty.
using tangents = series<value>;

/// The rounding error of an element: at most that of so many terms, added or multiplied one after another. Without terms an
/// element is an operand's, perhaps with another sign.
struct roundings {
  double terms = 0;
  bool multiplied = false;
  bool in_own_dtype = false;  ///< sums of halves round each time; otherwise they are kept in f32
};

/// The record of a structural op: all facts that stages of ir, autodiff, batch and verify need. Its lowering to kernels is in
/// plan/lowering/ops.
template <class Op>
concept record_of_op = requires(inference& f, const node& n, const evaluation& e, literal_array& out, const site& s,
                                std::size_t k, const value& ct, const tangents& t, const lane_site& l, words& w,
                                node& m) {
  { Op::infer(f) } -> std::same_as<void>;        // infers dtype and extents of f.n, or throws user_error
  { Op::text(n) } -> std::same_as<std::string>;  // " axis=1": all attributes that the result's type does not show
  { Op::read(w, m) } -> std::same_as<void>;  // the attributes of m from what `text` printed, and m's type and extents
  { Op::reference(e, out) } -> std::same_as<void>;  // the elements of `out`, in f64 or 64-bit integers
  { Op::jvp(s, t) } -> std::same_as<value>;         // the tangent of the result; empty for zero
  { Op::vjp(s, k, ct) } -> std::same_as<value>;     // the cotangent of operand k; empty for none
  { Op::batch(l) } -> std::same_as<value>;          // the node for all lanes, which are its first axis
  { Op::rounding(e, out) } -> std::same_as<roundings>;
};

/// A record that gives the cotangents of all operands at once, because one by one the time would grow with their number.
template <class Op>
concept pulls_at_once = requires(const site& s, const series<char>& asked, const value& ct) {
  { Op::vjps(s, asked, ct) } -> std::same_as<series<value>>;
};

/// Common parts of records.
struct without_derivative {
  static value jvp(const site&, const tangents&) { return {}; }
  static value vjp(const site&, std::size_t, const value&) { return {}; }
};

/// Ops that apply to tangents as to values.
struct linear {
  static value jvp(const site& s, const tangents& t) {
    attributes attr = s.n().attr;
    attr.literal = {};
    series<node_id> in;
    for (std::size_t k = 0; k < t.size(); ++k) in.push_back(t[k] ? t[k].id() : s.in(k).like(0.0).id());
    return {s.g, s.g.push(s.n().code, std::move(in), std::move(attr), s.n().where), s.n().where};
  }
};

/// Ops without operands, which are the same for all lanes.
struct without_lanes {
  [[noreturn]] static value batch(const lane_site&) {
    throw internal_error("internal error: a node without operands is batched");
  }
};

struct without_rounding {
  static roundings rounding(const evaluation&, const literal_array&) { return {}; }
};

/// Ops whose only attributes are the result's extents.
struct without_attributes {
  static std::string text(const node&) { return ""; }
  static void read(words&, node& n) { n.attr.dims = n.extents; }
};

struct with_axis {
  static std::string text(const node& n) { return " axis=" + std::to_string(n.attr.ints.at(0)); }
  static void read(words& w, node& n) { n.attr.ints = {w.integer("axis")}; }
};

/// Ops that walks over a graph handle themselves, because they have several results, or no value.
struct handled_by_walks : without_rounding {
  [[noreturn]] static void unasked() {
    throw internal_error("internal error: a walk asks the record of what it handles");
  }
  static void reference(const evaluation&, literal_array&) { unasked(); }
  static value jvp(const site&, const tangents&) { unasked(); }
  static value vjp(const site&, std::size_t, const value&) { unasked(); }
  static value batch(const lane_site&) { unasked(); }
};

}  // namespace sinter::ir::ops
