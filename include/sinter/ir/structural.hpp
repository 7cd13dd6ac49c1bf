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
//               identity; maximum and minimum have none and refuse an extent known to be 0.
//   arg_reduce  (x) ints = {axis}, attr.combiner maximum or minimum: i64 index of the first extreme; NaN is extreme.
//   gather      (x, index) ints = {axis}: result has index's extents, which equal x's off the axis; element c reads x at
//               c with c[axis] = index[c]. index is i32 or i64. Indices are clamped to [0, extent).
//   scatter_add (base, index, updates) ints = {axis}: base plus, for each c of updates, updates[c] at c with
//               c[axis] = index[c]; index (i32 or i64) and updates have equal extents, which equal base's off the axis.
//               Indices out of range are dropped.
//   dot         (a, b) ints = {nb, nk}: a is (B…, M…, K…), b is (B…, K…, N…), result (B…, M…, N…), nb = |B|, nk = |K|.
//               f16 and bf16 accumulate in f32.
#pragma once

#include <algorithm>
#include <array>

#include "../base/text.hpp"
#include "graph.hpp"

namespace sinter::ir {

namespace detail {

/// One node under inference: its operands, and errors that name it.
struct inference {
  const graph& g;
  node& n;

  const node& operand(std::size_t k) const { return g[n.in[k]]; }
  std::size_t rank(std::size_t k = 0) const { return operand(k).extents.size(); }
  [[noreturn]] void refuse(const std::string& message) const { fail(name(n.code), message, n.where); }
  void require(bool holds, const std::string& message) const {
    if (!holds) refuse(message);
  }
  std::string shape_of(std::size_t k) const { return text_of(operand(k).extents); }

  void operands(std::size_t count) const {
    if (n.in.size() != count)
      throw internal_error("internal error: " + std::string(name(n.code)) + " takes " + std::to_string(count) +
                           " operands, not " + std::to_string(n.in.size()));
  }
  /// ints must hold `count` numbers and dims `extents` dims: what a builder always provides.
  void fields(std::size_t count, std::size_t extents) const {
    if (n.attr.ints.size() != count || n.attr.dims.size() != extents)
      throw internal_error("internal error: " + std::string(name(n.code)) + " has malformed attributes");
  }
  std::size_t axis(std::size_t of_rank) const {
    const auto a = n.attr.ints[0];
    if (a < 0 || a >= static_cast<std::int64_t>(of_rank))
      refuse("axis " + std::to_string(a) + " of a tensor of rank " + std::to_string(of_rank) +
             "; axes are 0 to rank - 1");
    return static_cast<std::size_t>(a);
  }
  void numbers(dtype t) const {
    require(!is_bool(t), "takes numbers, not bool; cast with cast<T>(x)");
  }
  void index_dtype(std::size_t k) const {
    const dtype t = operand(k).type;
    require(t == dtype::i32 || t == dtype::i64,
            std::string("the index is ") + name(t) + "; cast it with cast<std::int64_t>(index)");
  }
};

inline void infer_pointwise(inference& f) {
  const auto& r = row(f.n.code);
  f.operands(static_cast<std::size_t>(r.arity));
  std::array<dtype, 3> types{};
  for (std::size_t k = 0; k < f.n.in.size(); ++k) types[k] = f.operand(k).type;
  if (const char* error = apply(r.rule, types.data(), r.arity, f.n.attr.type, f.n.type))
    f.refuse(std::string(error) + "; operands are " +
             text::join(f.n.in, ", ", [&](node_id id) { return std::string(name(f.g[id].type)); }));
  for (std::size_t k = 1; k < f.n.in.size(); ++k)
    if (f.operand(k).extents != f.operand(0).extents)
      f.refuse("shapes differ: " + text::join(f.n.in, ", ", [&](node_id id) { return text_of(f.g[id].extents); }) +
               "; broadcast_to gives them one shape");
  f.n.extents = f.operand(0).extents;
}

inline void infer_leaf(inference& f) {
  f.operands(0);
  f.n.type = f.n.attr.type;
  f.n.extents = f.n.attr.dims;
  if (f.n.code != op::iota) return;
  f.fields(1, f.n.attr.dims.size());
  f.axis(f.n.extents.size());
  f.numbers(f.n.type);
}

inline void infer_reshape(inference& f) {
  f.operands(1);
  f.n.extents = f.n.attr.dims;
  const dim from = product(f.operand(0).extents), to = product(f.n.extents);
  f.require(from == to, f.shape_of(0) + " has " + from.text() + " elements, " + text_of(f.n.extents) + " has " +
                            to.text() + "; the counts must be equal");
}

inline void infer_permute(inference& f) {
  f.operands(1);
  const auto& perm = f.n.attr.ints;
  std::vector<bool> seen(f.rank(), false);
  bool valid = perm.size() == f.rank();
  for (auto p : perm) {
    valid = valid && p >= 0 && p < static_cast<std::int64_t>(f.rank()) && !seen[static_cast<std::size_t>(p)];
    if (valid) seen[static_cast<std::size_t>(p)] = true;
  }
  f.require(valid, "[" + text::join(perm, ", ", [](auto p) { return std::to_string(p); }) + "] does not order the " +
                       std::to_string(f.rank()) + " axes of " + f.shape_of(0) + "; name each axis once");
  for (auto p : perm) f.n.extents.push_back(f.operand(0).extents[static_cast<std::size_t>(p)]);
}

inline void infer_broadcast(inference& f) {
  f.operands(1);
  f.n.extents = f.n.attr.dims;
  const auto& from = f.operand(0).extents;
  bool valid = from.size() == f.n.extents.size();
  for (std::size_t i = 0; valid && i < from.size(); ++i) valid = from[i].is(1) || from[i] == f.n.extents[i];
  f.require(valid, text_of(from) + " does not broadcast to " + text_of(f.n.extents) +
                       "; each extent must be equal or 1");
}

/// Refuses unless start + i·step lies in [0, extent) for every i of [0, count).
inline void check_range(const inference& f, std::size_t axis, const dim& extent, const dim& count, const dim& start,
                        std::int64_t step) {
  if (count.is(0)) return;
  const auto refuse = [&] {
    f.refuse("axis " + std::to_string(axis) + " of " + f.shape_of(0) + ": " + count.text() + " elements from " +
             start.text() + " by " + std::to_string(step) + " do not stay within [0, " + extent.text() + ")");
  };
  std::int64_t reach = 0, end = 0;
  if (count.is_number() && (__builtin_mul_overflow(*count.number() - 1, step, &reach) ||
                            (start.is_number() && __builtin_add_overflow(*start.number(), reach, &end))))
    refuse();
  const dim last = start + (count - 1) * dim(step);
  const dim& low = step > 0 ? start : last;
  const dim& high = step > 0 ? last : start;
  if (low.lower_bound() < 0 || (extent - 1 - high).lower_bound() < 0) refuse();
}

inline void infer_slice(inference& f) {
  f.operands(1);
  const std::size_t rank = f.rank();
  f.fields(rank, 2 * rank);
  for (std::size_t i = 0; i < rank; ++i) {
    const auto step = f.n.attr.ints[i];
    f.require(step != 0, "the step of axis " + std::to_string(i) + " is 0; use a positive or a negative step");
    const dim &count = f.n.attr.dims[i], &start = f.n.attr.dims[rank + i];
    check_range(f, i, f.operand(0).extents[i], count, start, step);
    f.n.extents.push_back(count);
  }
}

inline void infer_pad(inference& f) {
  f.operands(1);
  const std::size_t rank = f.rank();
  f.fields(0, 2 * rank);
  for (std::size_t i = 0; i < rank; ++i) {
    const dim &low = f.n.attr.dims[i], &high = f.n.attr.dims[rank + i];
    f.require(low.lower_bound() >= 0 && high.lower_bound() >= 0,
              "widths of axis " + std::to_string(i) + " are " + low.text() + " and " + high.text() +
                  "; they must not be negative (slice removes elements)");
    f.n.extents.push_back(low + f.operand(0).extents[i] + high);
  }
}

inline void infer_concat(inference& f) {
  f.require(!f.n.in.empty(), "nothing to join; pass at least one tensor");
  f.fields(1, 0);
  const std::size_t axis = f.axis(f.rank());
  f.n.type = f.operand(0).type;
  f.n.extents = f.operand(0).extents;
  for (std::size_t k = 1; k < f.n.in.size(); ++k) {
    f.require(f.operand(k).type == f.n.type, std::string("dtypes differ: ") + name(f.n.type) + " and " +
                                                 name(f.operand(k).type) + "; cast one with cast<T>(x)");
    bool fits = f.rank(k) == f.rank();
    for (std::size_t i = 0; fits && i < f.rank(); ++i)
      fits = i == axis || f.operand(k).extents[i] == f.n.extents[i];
    f.require(fits, f.shape_of(0) + " and " + f.shape_of(k) + " differ off axis " + std::to_string(axis) +
                        "; only the extents of the joined axis may differ");
    f.n.extents[axis] += f.operand(k).extents[axis];
  }
}

inline void refuse_empty_extreme(const inference& f, std::size_t axis) {
  f.require(!f.operand(0).extents[axis].is(0),
            std::string(f.n.attr.combiner == op::maximum ? "max" : "min") + " of nothing: axis " +
                std::to_string(axis) + " of " + f.shape_of(0) + " is empty; test the extent before, or pad");
}

inline void infer_reduce(inference& f) {
  f.operands(1);
  const op combiner = f.n.attr.combiner;
  const bool known = combiner == op::add || combiner == op::mul || combiner == op::maximum ||
                     combiner == op::minimum || combiner == op::bit_or || combiner == op::bit_and;
  f.require(known, std::string(name(combiner)) + " does not combine a reduction");
  dtype unused{};
  const dtype both[] = {f.n.type, f.n.type};
  if (const char* error = apply(row(combiner).rule, both, 2, f.n.type, unused))
    f.refuse(std::string(name(combiner)) + " " + error + "; the operand is " + name(f.n.type));
  std::int64_t previous = -1;
  for (auto a : f.n.attr.ints) {
    f.require(a > previous && a < static_cast<std::int64_t>(f.rank()),
              "axes [" + text::join(f.n.attr.ints, ", ", [](auto x) { return std::to_string(x); }) + "] of " +
                  f.shape_of(0) + "; axes are ascending, from 0 to rank - 1");
    previous = a;
    if (combiner == op::maximum || combiner == op::minimum) refuse_empty_extreme(f, static_cast<std::size_t>(a));
  }
  std::size_t next = 0;
  for (std::size_t i = 0; i < f.rank(); ++i)
    if (next < f.n.attr.ints.size() && f.n.attr.ints[next] == static_cast<std::int64_t>(i)) ++next;
    else f.n.extents.push_back(f.operand(0).extents[i]);
}

inline void infer_arg_reduce(inference& f) {
  f.operands(1);
  f.fields(1, 0);
  f.require(f.n.attr.combiner == op::maximum || f.n.attr.combiner == op::minimum,
            std::string(name(f.n.attr.combiner)) + " has no index; use maximum or minimum");
  f.numbers(f.operand(0).type);
  const std::size_t axis = f.axis(f.rank());
  refuse_empty_extreme(f, axis);
  f.n.type = dtype::i64;
  f.n.extents = f.operand(0).extents;
  f.n.extents.erase(f.n.extents.begin() + static_cast<std::ptrdiff_t>(axis));
}

/// Refuses unless operands `base` and `index` have equal extents off the axis.
inline void check_off_axis(const inference& f, std::size_t base, std::size_t index, std::size_t axis) {
  bool fits = f.rank(base) == f.rank(index);
  for (std::size_t i = 0; fits && i < f.rank(base); ++i)
    fits = i == axis || f.operand(base).extents[i] == f.operand(index).extents[i];
  f.require(fits, f.shape_of(base) + " and the index " + f.shape_of(index) + " differ off axis " +
                      std::to_string(axis) + "; broadcast_to gives the index the same extents");
}

inline void infer_gather(inference& f) {
  f.operands(2);
  f.fields(1, 0);
  f.index_dtype(1);
  const std::size_t axis = f.axis(f.rank());
  check_off_axis(f, 0, 1, axis);
  f.n.extents = f.operand(1).extents;
  f.require(!f.operand(0).extents[axis].is(0) || product(f.n.extents).is(0),
            "reads axis " + std::to_string(axis) + " of " + f.shape_of(0) + ", which is empty; test the extent before");
}

inline void infer_scatter_add(inference& f) {
  f.operands(3);
  f.fields(1, 0);
  f.index_dtype(1);
  f.numbers(f.n.type);
  f.require(f.operand(2).type == f.n.type, std::string("base is ") + name(f.n.type) + ", updates are " +
                                               name(f.operand(2).type) + "; cast one with cast<T>(x)");
  const std::size_t axis = f.axis(f.rank());
  f.require(f.operand(1).extents == f.operand(2).extents, "the index is " + f.shape_of(1) + ", updates are " +
                                                              f.shape_of(2) + "; they must have one shape");
  check_off_axis(f, 0, 1, axis);
  f.n.extents = f.operand(0).extents;
}

inline void infer_dot(inference& f) {
  f.operands(2);
  f.fields(2, 0);
  f.numbers(f.n.type);
  f.require(f.operand(1).type == f.n.type, std::string("a is ") + name(f.n.type) + ", b is " +
                                               name(f.operand(1).type) + "; cast one with cast<T>(x)");
  const auto nb = f.n.attr.ints[0], nk = f.n.attr.ints[1];
  const auto ra = static_cast<std::int64_t>(f.rank(0)), rb = static_cast<std::int64_t>(f.rank(1));
  if (nb < 0 || nk < 0 || nb + nk > ra || nb + nk > rb)
    throw internal_error("internal error: dot has malformed attributes");
  const auto &a = f.operand(0).extents, &b = f.operand(1).extents;
  const auto batch = a.begin() + nb, inner = a.end() - nk;
  f.require(std::equal(a.begin(), batch, b.begin()),
            "batch extents differ: a is " + f.shape_of(0) + ", b is " + f.shape_of(1));
  f.require(std::equal(inner, a.end(), b.begin() + nb),
            "inner extents differ: a is " + f.shape_of(0) + ", b is " + f.shape_of(1) + "; transpose one of them");
  f.n.extents.assign(a.begin(), inner);
  f.n.extents.insert(f.n.extents.end(), b.begin() + nb + nk, b.end());
}

inline void infer_structural(inference& f) {
  switch (f.n.code) {
    case op::input:
    case op::constant:
    case op::iota: return infer_leaf(f);
    case op::reshape: return infer_reshape(f);
    case op::permute: return infer_permute(f);
    case op::broadcast: return infer_broadcast(f);
    case op::slice: return infer_slice(f);
    case op::pad: return infer_pad(f);
    case op::concat: return infer_concat(f);
    case op::reduce: return infer_reduce(f);
    case op::arg_reduce: return infer_arg_reduce(f);
    case op::gather: return infer_gather(f);
    case op::scatter_add: return infer_scatter_add(f);
    case op::dot: return infer_dot(f);
    default: throw internal_error("internal error: infer meets an unknown op");
  }
}

/// Refuses a rank above max_rank, an extent that may be negative, and a count that overflows 63 bits.
inline void check_result(const inference& f) {
  const auto& extents = f.n.extents;
  f.require(extents.size() <= static_cast<std::size_t>(max_rank),
            "the result " + text_of(extents) + " has rank " + std::to_string(extents.size()) +
                "; the highest rank is " + std::to_string(max_rank));
  std::int64_t count = 1;
  bool overflow = false;
  for (const auto& e : extents) {
    f.require(e.lower_bound() >= 0,
              "the result " + text_of(extents) + " has a negative extent; extents are 0 or more");
    if (e.is_number()) overflow = overflow || __builtin_mul_overflow(count, std::max<std::int64_t>(*e.number(), 1), &count);
  }
  f.require(!overflow, "the result " + text_of(extents) + " has more than 2^63 elements");
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
