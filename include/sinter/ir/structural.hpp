// ir/structural.hpp: what each structural op means: its operands, attributes, dtype and shape rule.
//
//   input       attr.type, attr.dims. Operand k of the program for inputs[k]; ints = {k}.
//   constant    attr.type, attr.dims, attr.literal: one literal everywhere.
//   iota        attr.type, attr.dims, ints = {axis}: the index along the axis.
//   reshape     (x) attr.dims: the same elements in row-major order.
//   permute     (x) ints = perm: result axis i is operand axis perm[i].
//   broadcast   (x) attr.dims: same rank; operand extents are equal to the result's or 1.
//   slice       (x) attr.dims = extents then starts (2·rank), ints = steps, not 0: result index i reads start + i·step.
//   pad         (x) attr.dims = low then high (2·rank, ≥ 0), attr.literal: x surrounded by the literal.
//   concat      (x…) ints = {axis}.
//   reduce      (x) ints = axes ascending, attr.combiner. Axes are dropped. An empty reduction gives the combiner's
//               identity; maximum and minimum refuse an extent known to be 0, and start from the lowest or largest value.
//   arg_reduce  (x) ints = {axis}, attr.combiner maximum or minimum: i64 index of the first extreme; NaN is extreme. An
//               extent known to be 0 is refused; -1 where one turns out to be.
//   gather      (x, index) ints = {axis}: result has index's extents, which equal x's off the axis; element c reads x at
//               c with c[axis] = index[c]. index is i32 or i64. Indices are clamped to [0, extent). An extent known to be
//               0 is refused unless the result is empty; 0 or false is read where one turns out to be.
//   scatter_add (base, index, updates) ints = {axis}: base plus, for each c of updates, updates[c] at c with
//               c[axis] = index[c]; index (i32 or i64) and updates have equal extents, which equal base's off the axis.
//               Indices out of range are dropped.
//   dot         (a, b) ints = {nb, nk}: a is (B…, M…, K…), b is (B…, K…, N…), result (B…, M…, N…), nb = |B|, nk = |K|.
//               f16 and bf16 accumulate in f32.
//   scan        (x) ints = {axis, reverse}, attr.combiner add, mul, maximum or minimum: element i along the axis combines x's
//               0 to i, or with reverse 1 i to the end, in f32 if 16 bits. (x, a), add: y[i] = x[i] + a[i]·y[i-1], y[0] = x[0].
//   opaque      (x…) attr.step; ints = {turn among graph::effects} if it has an effect, else {}. A token; graph.hpp.
//   pick        (opaque) ints = {k}: result k of the opaque node.
//   size        attr.dims = {value}: a rank-0 i64.
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>

#include "../base/series.hpp"
#include "../base/text.hpp"
#include "push_opaque.hpp"

namespace sinter::ir {

namespace detail {

/// A part of an error message; becomes text only when the error is thrown, so that checks that pass cost nothing.
class piece {
 public:
  piece(const char* s) : text_(s) {}
  piece(dtype t) : text_(dtype_name(t)) {}
  piece(op o) : text_(name(o)) {}
  piece(std::size_t n) : number_(static_cast<std::int64_t>(n)) {}
  piece(std::int64_t n) : number_(n) {}
  piece(const dim& d) : dim_(&d) {}
  piece(const shape& s) : shape_(&s) {}
  piece(const series<std::int64_t>& v) : ints_(&v) {}

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
  const series<std::int64_t>* ints_ = nullptr;
};

/// One node under inference: its operands, and errors that name it.
struct inference {
  const graph& g;
  node& n;

  const node& operand(std::size_t k) const { return g[n.in[k]]; }
  const shape& extents(std::size_t k = 0) const { return operand(k).extents; }
  std::size_t rank(std::size_t k = 0) const { return extents(k).size(); }

  [[noreturn, gnu::cold, gnu::noinline]] void refuse(std::initializer_list<piece> message) const {
    fail(name(n.code), text::join(message, "", [](const piece& p) { return p.text(); }), n.where);
  }
  [[noreturn, gnu::cold, gnu::noinline]] void malformed() const {
    throw internal_error("internal error: malformed operands or attributes of " + std::string(name(n.code)));
  }

  /// What every builder provides: the count of operands, of ints and of dims.
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
};

/// Refuses a rank above max_rank, a negative extent, and what no memory holds: a plan's sums of bytes fit into 64 bits.
inline void check_result(const inference& f) {
  const auto& extents = f.n.extents;
  if (extents.size() > static_cast<std::size_t>(max_rank))
    f.refuse({"the result ", extents, " has rank ", extents.size(), "; the highest rank is ", std::int64_t{max_rank}});
  std::int64_t count = 1;
  for (const auto& e : extents) {
    if (e.upper_bound() < 0) f.refuse({"the result ", extents, " has a negative extent; extents are 0 or more"});
    if (e.is_number() && (__builtin_mul_overflow(count, std::max<std::int64_t>(*e.number(), 1), &count) ||
                          count > std::int64_t{1} << 56))
      f.refuse({"the result ", extents, " has more than 2^56 elements"});
  }
}

inline void infer_pointwise(inference& f) {
  const auto& r = row(f.n.code);
  f.expect(static_cast<std::size_t>(r.arity), f.n.attr.ints.size(), 0);
  std::array<dtype, 3> types{};
  for (std::size_t k = 0; k < f.n.in.size(); ++k) types[k] = f.operand(k).type;
  if (const char* error = apply(r.rule, types.data(), r.arity, f.n.attr.type, f.n.type)) {
    if (r.arity == 1) f.refuse({error, "; the operand is ", types[0]});
    if (r.arity == 2) f.refuse({error, "; operands are ", types[0], " and ", types[1]});
    f.refuse({error, "; operands are ", types[0], ", ", types[1], " and ", types[2]});
  }
  for (std::size_t k = 1; k < f.n.in.size(); ++k)
    if (f.extents(k) != f.extents())
      f.refuse({"shapes differ: ", f.extents(), " and ", f.extents(k), "; broadcast_to gives them one shape"});
  f.n.extents = f.extents();
}

inline void infer_leaf(inference& f) {
  f.expect(0, f.n.code == op::constant ? !f.n.attr.ints.empty() : 1, f.n.attr.dims.size());
  f.n.type = f.n.attr.type;
  f.n.extents = f.n.attr.dims;
  if (f.n.code != op::iota) return;
  f.axis(f.n.extents.size());
  f.numbers(f.n.type);
}

inline void infer_reshape(inference& f) {
  f.expect(1, 0, f.n.attr.dims.size());
  f.n.extents = f.n.attr.dims;
  check_result(f);
  const dim from = product(f.extents()), to = product(f.n.extents);
  if (from != to)
    f.refuse({f.extents(), " has ", from, " elements, ", f.n.extents, " has ", to, "; the counts must be equal"});
}

inline void infer_permute(inference& f) {
  f.expect(1, f.n.attr.ints.size(), 0);
  const auto& perm = f.n.attr.ints;
  series<bool> seen(f.rank(), false);
  bool valid = perm.size() == f.rank();
  for (auto p : perm) {
    valid = valid && p >= 0 && p < static_cast<std::int64_t>(f.rank()) && !seen[static_cast<std::size_t>(p)];
    if (valid) seen[static_cast<std::size_t>(p)] = true;
  }
  if (!valid) f.refuse({perm, " does not order the ", f.rank(), " axes of ", f.extents(), "; name each axis once"});
  for (auto p : perm) f.n.extents.push_back(f.extents()[static_cast<std::size_t>(p)]);
}

inline void infer_broadcast(inference& f) {
  f.expect(1, 0, f.n.attr.dims.size());
  f.n.extents = f.n.attr.dims;
  const auto& from = f.extents();
  bool valid = from.size() == f.n.extents.size();
  for (std::size_t i = 0; valid && i < from.size(); ++i) valid = from[i].is(1) || from[i] == f.n.extents[i];
  if (!valid) f.refuse({from, " does not broadcast to ", f.n.extents, "; each extent must be equal or 1"});
}

/// Refuses start + i·step outside [0, extent) for an i of [0, count). Of open sizes what is known neither way passes: the
/// graph is for sizes that who pushes the node has compared.
inline void check_range(const inference& f, std::size_t axis, const dim& extent, const dim& count, const dim& start,
                        std::int64_t step) {
  if (count.is(0)) return;
  std::int64_t reach = 0, end = 0;
  const bool overflows =
      count.is_number() && (__builtin_mul_overflow(*count.number() - 1, step, &reach) ||
                            (start.is_number() && __builtin_add_overflow(*start.number(), reach, &end)));
  const dim last = overflows ? dim(-1) : start + (count - 1) * dim(step);
  const dim& low = step > 0 ? start : last;
  const dim& high = step > 0 ? last : start;
  if (overflows || low.upper_bound() < 0 || (extent - 1 - high).upper_bound() < 0)
    f.refuse({"axis ", axis, " of ", f.extents(), ": ", count, " elements from ", start, " by ", step,
              " do not stay within [0, ", extent, ")"});
}

inline void infer_slice(inference& f) {
  const std::size_t rank = f.rank();
  f.expect(1, rank, 2 * rank);
  for (std::size_t i = 0; i < rank; ++i) {
    const auto step = f.n.attr.ints[i];
    if (step == 0) f.refuse({"the step of axis ", i, " is 0; use a positive or a negative step"});
    const dim &count = f.n.attr.dims[i], &start = f.n.attr.dims[rank + i];
    check_range(f, i, f.extents()[i], count, start, step);
    f.n.extents.push_back(count);
  }
}

inline void infer_pad(inference& f) {
  const std::size_t rank = f.rank();
  f.expect(1, 0, 2 * rank);
  for (std::size_t i = 0; i < rank; ++i) {
    const dim &low = f.n.attr.dims[i], &high = f.n.attr.dims[rank + i];
    if (low.upper_bound() < 0 || high.upper_bound() < 0)
      f.refuse(
          {"widths of axis ", i, " are ", low, " and ", high, "; they must not be negative (slice removes elements)"});
    f.n.extents.push_back(low + f.extents()[i] + high);
  }
}

/// True when operands j and k have equal rank, and equal extents off the axis.
inline bool agree_off_axis(const inference& f, std::size_t j, std::size_t k, std::size_t axis) {
  bool fits = f.rank(j) == f.rank(k);
  for (std::size_t i = 0; fits && i < f.rank(j); ++i) fits = i == axis || f.extents(j)[i] == f.extents(k)[i];
  return fits;
}

inline void infer_concat(inference& f) {
  if (f.n.in.empty()) f.refuse({"nothing to join; pass at least one tensor"});
  f.expect(f.n.in.size(), 1, 0);
  const std::size_t axis = f.axis(f.rank());
  f.n.extents = f.extents();
  for (std::size_t k = 1; k < f.n.in.size(); ++k) {
    if (f.operand(k).type != f.n.type)
      f.refuse({"dtypes differ: ", f.n.type, " and ", f.operand(k).type, "; cast one with cast<T>(x)"});
    if (!agree_off_axis(f, 0, k, axis))
      f.refuse({f.extents(), " and ", f.extents(k), " differ off axis ", axis,
                "; only the extents of the joined axis may differ"});
    f.n.extents[axis] += f.extents(k)[axis];
  }
}

inline void refuse_empty_extreme(const inference& f, std::size_t axis) {
  if (f.extents()[axis].is(0))
    f.refuse({f.n.attr.combiner == op::maximum ? "max" : "min", " of nothing: axis ", axis, " of ", f.extents(),
              " is empty; test the extent before, or pad"});
}

inline void infer_reduce(inference& f) {
  f.expect(1, f.n.attr.ints.size(), 0);
  const op combiner = f.n.attr.combiner;
  if (combiner != op::add && combiner != op::mul && combiner != op::maximum && combiner != op::minimum &&
      combiner != op::bit_or && combiner != op::bit_and)
    f.refuse({combiner, " does not combine a reduction"});
  dtype unused{};
  const dtype both[] = {f.n.type, f.n.type};
  if (const char* error = apply(row(combiner).rule, both, 2, f.n.type, unused))
    f.refuse({combiner, " ", error, "; the operand is ", f.n.type});
  std::int64_t previous = -1;
  for (auto a : f.n.attr.ints) {
    if (a <= previous || a >= static_cast<std::int64_t>(f.rank()))
      f.refuse({"axes ", f.n.attr.ints, " of ", f.extents(), "; axes are ascending, from 0 to rank - 1"});
    previous = a;
    if (combiner == op::maximum || combiner == op::minimum) refuse_empty_extreme(f, static_cast<std::size_t>(a));
  }
  std::size_t next = 0;
  for (std::size_t i = 0; i < f.rank(); ++i)
    if (next < f.n.attr.ints.size() && f.n.attr.ints[next] == static_cast<std::int64_t>(i)) ++next;
    else f.n.extents.push_back(f.extents()[i]);
}

inline void infer_arg_reduce(inference& f) {
  f.expect(1, 1, 0);
  if (f.n.attr.combiner != op::maximum && f.n.attr.combiner != op::minimum)
    f.refuse({f.n.attr.combiner, " has no index; use maximum or minimum"});
  f.numbers(f.operand(0).type);
  const std::size_t axis = f.axis(f.rank());
  refuse_empty_extreme(f, axis);
  f.n.type = dtype::i64;
  f.n.extents = f.extents();
  f.n.extents.erase(f.n.extents.begin() + static_cast<std::ptrdiff_t>(axis));
}

/// The axis of gather and scatter_add, whose index is operand 1.
inline std::size_t indexed_axis(const inference& f) {
  f.index_dtype(1);
  const std::size_t axis = f.axis(f.rank());
  if (!agree_off_axis(f, 0, 1, axis))
    f.refuse({f.extents(), " and the index ", f.extents(1), " differ off axis ", axis,
              "; broadcast_to gives the index the same extents"});
  return axis;
}

inline void infer_gather(inference& f) {
  f.expect(2, 1, 0);
  const std::size_t axis = indexed_axis(f);
  f.n.extents = f.extents(1);
  if (f.extents()[axis].is(0) && !product(f.n.extents).is(0))
    f.refuse({"reads axis ", axis, " of ", f.extents(), ", which is empty; test the extent before"});
}

inline void infer_scatter_add(inference& f) {
  f.expect(3, 1, 0);
  f.numbers(f.n.type);
  if (f.operand(2).type != f.n.type)
    f.refuse({"base is ", f.n.type, ", updates are ", f.operand(2).type, "; cast one with cast<T>(x)"});
  if (f.extents(1) != f.extents(2))
    f.refuse({"the index is ", f.extents(1), ", updates are ", f.extents(2), "; they must have one shape"});
  indexed_axis(f);
  f.n.extents = f.extents();
}

inline void infer_dot(inference& f) {
  f.expect(2, 2, 0);
  f.numbers(f.n.type);
  if (f.operand(1).type != f.n.type)
    f.refuse({"a is ", f.n.type, ", b is ", f.operand(1).type, "; cast one with cast<T>(x)"});
  const auto nb = f.n.attr.ints[0], nk = f.n.attr.ints[1];
  const auto ra = static_cast<std::int64_t>(f.rank(0)), rb = static_cast<std::int64_t>(f.rank(1));
  if (nb < 0 || nk < 0 || nb + nk > ra || nb + nk > rb) f.malformed();
  const auto &a = f.extents(0), &b = f.extents(1);
  const auto inner = a.end() - nk;
  if (!std::equal(a.begin(), a.begin() + nb, b.begin()))
    f.refuse({"batch extents differ: a is ", a, ", b is ", b, "; broadcast_to gives them one batch"});
  if (!std::equal(inner, a.end(), b.begin() + nb))
    f.refuse({"inner extents differ: a is ", a, ", b is ", b, "; transpose one of them"});
  f.n.extents.assign(a.begin(), inner);
  f.n.extents.insert(f.n.extents.end(), b.begin() + nb + nk, b.end());
}

inline void infer_scan(inference& f) {
  f.expect(f.n.in.size() == 2 ? 2 : 1, 2, 0);
  const op combiner = f.n.attr.combiner;
  if (combiner != op::add && combiner != op::mul && combiner != op::maximum && combiner != op::minimum)
    f.refuse({combiner, " does not combine a scan"});
  if (f.n.in.size() == 2 && (combiner != op::add || f.operand(1).type != f.n.type || f.extents(1) != f.extents()))
    f.refuse({combiner, " with factors ", f.operand(1).type, f.extents(1), "; add takes ", f.n.type, f.extents()});
  f.numbers(f.n.type);
  f.axis(f.rank());
  f.n.extents = f.extents();
}

inline void infer_size(inference& f) {
  f.expect(0, 0, 1);
  f.n.type = dtype::i64;
}

inline void infer_opaque(const graph& g, node& n);
inline void infer_pick(const graph& g, node& n);

inline void infer_structural(inference& f) {
  switch (f.n.code) {
    case op::input:
    case op::constant:
    case op::iota:
      return infer_leaf(f);
    case op::reshape:
      return infer_reshape(f);
    case op::permute:
      return infer_permute(f);
    case op::broadcast:
      return infer_broadcast(f);
    case op::slice:
      return infer_slice(f);
    case op::pad:
      return infer_pad(f);
    case op::concat:
      return infer_concat(f);
    case op::reduce:
      return infer_reduce(f);
    case op::arg_reduce:
      return infer_arg_reduce(f);
    case op::gather:
      return infer_gather(f);
    case op::scatter_add:
      return infer_scatter_add(f);
    case op::dot:
      return infer_dot(f);
    case op::scan:
      return infer_scan(f);
    case op::opaque:
      return infer_opaque(f.g, f.n);
    case op::pick:
      return infer_pick(f.g, f.n);
    case op::size:
      return infer_size(f);
    default:
      throw internal_error("internal error: infer meets an unknown op");
  }
}

}  // namespace detail

SINTER_API void infer(const graph& g, node& n) {
  for (auto id : n.in) ensure(id < g.size(), "an operand is a node of the graph");
  detail::inference f{g, n};
  n.extents.clear();
  if (!n.in.empty()) n.type = g[n.in[0]].type;
  if (is_pointwise(n.code)) detail::infer_pointwise(f);
  else detail::infer_structural(f);
  detail::check_result(f);
}

}  // namespace sinter::ir
