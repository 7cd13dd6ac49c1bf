// front/shapes/op_shapes.hpp: the shape of each op's result: one constexpr function per op, for static and for concrete
// extents.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>

#include "../../base/dims.hpp"
#include "../../base/error.hpp"
#include "../../base/text.hpp"
#include "axes.hpp"

namespace sinter::op_shapes {

/// A shape, or an error and its remedy. Unknown extents agree with all extents.
struct outcome {
  dims shape;
  const char* error = nullptr;
  const char* hint = nullptr;
};

constexpr outcome refuse(const char* error, const char* hint) { return {{}, error, hint}; }

constexpr outcome limited(const dims& d) {
  return d.rank > max_rank ? refuse("the result would have more than 12 axes", "join axes with reshape first")
                           : outcome{d};
}

/// Throws "[op] error: a is (…), b is (…); hint" for an outcome that is an error.
inline void demand(const char* op, const outcome& r, location at, std::initializer_list<dims> operands) {
  if (!r.error) return;
  std::string message = r.error;
  char letter = 'a';
  for (const dims& d : operands) {
    message += letter == 'a' ? ": " : ", ";
    message += operands.size() == 1 ? std::string("the operand") : std::string(1, letter);
    message += " is " + text::shape(d);
    ++letter;
  }
  if (r.hint) message += std::string("; ") + r.hint;
  fail(op, message, at);
}

/// Whether the number of elements overflows. Open sizes do not count.
constexpr bool too_many(const dims& d) {
  std::int64_t n = 1;
  for (auto e : d)
    if (!e.is_symbolic() && e.bits > 0 && __builtin_mul_overflow(n, e.bits, &n)) return true;
  return false;
}
constexpr outcome refuse_size() {
  return refuse("the result would have too many elements", "64 bits count the elements of a tensor");
}

constexpr bool agree(dim a, dim b) { return a == dyn || b == dyn || a == b; }
constexpr dim either(dim a, dim b) { return a == dyn ? b : a; }

constexpr bool is_one(dim a) { return !a.is_symbolic() && a.bits == 1; }

/// The common extent of two axes that broadcast: the extent that is not 1. A known extent wins over an unknown one. Equal
/// open extents are not compared with 1.
constexpr dim common(dim a, dim b) {
  if (is_one(a) || is_one(b)) return is_one(a) ? b : a;
  return a.bits == b.bits || agree(a, b) ? either(a, b) : a == 1 ? b : a;
}
constexpr bool broadcasts(dim a, dim b) {
  return is_one(a) || is_one(b) || a.bits == b.bits || agree(a, b) || a == 1 || b == 1;
}

constexpr dims part(const dims& x, int from, int to) {
  dims d;
  for (int i = from; i < to; ++i) d.push(x[i]);
  return d;
}
constexpr dims joined(const dims& a, const dims& b) {
  dims d = a;
  for (auto e : b) d.push(e);
  return d;
}

/// NumPy broadcasting of two shapes, aligned at the last axis.
constexpr outcome broadcast(const dims& a, const dims& b) {
  const int rank = a.rank > b.rank ? a.rank : b.rank;
  dims d(rank);
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank), ib = i - (rank - b.rank);
    const dim ea = ia < 0 ? dim(1) : a[ia], eb = ib < 0 ? dim(1) : b[ib];
    if (!broadcasts(ea, eb))
      return refuse("the shapes do not broadcast", "make extents equal or 1, counted from the last axis");
    d[i] = common(ea, eb);
  }
  return {d};
}

/// Whether a has the shape that it and b broadcast to. An open extent does not count as 1.
constexpr bool covers(const dims& a, const dims& b) {
  for (int i = 1; i <= b.rank; ++i)
    if (i > a.rank || (a[a.rank - i].bits == 1 && b[b.rank - i].bits != 1)) return false;
  return true;
}

/// The shape of operands whose elements belong together: of two operands that differ, only one may be repeated.
constexpr outcome paired(std::initializer_list<dims> operands) {
  for (const dims& a : operands) {
    bool all = true;
    for (const dims& b : operands) all = all && covers(a, b);
    if (all) return {a};
  }
  return refuse("no operand has the shape that they broadcast to", "reshape one, or repeat one with broadcast_to");
}

constexpr outcome reduce(const dims& x, const axis_list& axes, bool keep) {
  dims d;
  for (int i = 0; i < x.rank; ++i) {
    if (!axes.has(i)) d.push(x[i]);
    else if (keep) d.push(1);
  }
  return {d};
}

/// `to` may have one `dyn`: the extent that the others leave over.
constexpr outcome reshape(const dims& x, dims to) {
  if (to.rank > max_rank) return refuse("more than 12 extents", "join axes");
  if (too_many(to)) return refuse_size();
  int open = -1;
  dim rest = 1;
  for (int i = 0; i < to.rank; ++i) {
    if (to[i] < dyn) return refuse("an extent is negative", "give extents of 0 or more, and -1 at most once");
    if (to[i] == dyn && open >= 0) return refuse("more than one extent is -1", "give all extents but one");
    if (to[i] == dyn) open = i;
    else rest *= to[i];
  }
  const dim n = x.numel();
  if (open < 0) {
    if (n != dyn && n != rest)
      return refuse("the number of elements differs", "give extents whose product is the same");
    return {to};
  }
  if (n == dyn) return {to};
  if (rest == 0 || n % rest != 0)
    return refuse("no extent fits in place of -1", "give extents that divide the number of elements");
  to[open] = n / rest;
  return {to};
}

constexpr outcome permute(const dims& x, const axis_list& perm) {
  if (perm.count != x.rank) return refuse("the permutation must name every axis once", "name as many axes as the rank");
  dims d;
  for (int i = 0; i < x.rank; ++i) d.push(x[perm[i]]);
  return {d};
}

constexpr outcome broadcast_to(const dims& x, const dims& to) {
  if (to.rank > max_rank) return refuse("more than 12 extents", "join axes");
  if (x.rank > to.rank) return refuse("the operand has more axes than the result", "squeeze or reshape it first");
  dims d = to;
  for (int i = 0; i < x.rank; ++i) {
    dim& e = d[to.rank - x.rank + i];
    if (x[i] != 1 && !agree(x[i], e))
      return refuse("an extent is neither 1 nor the wanted one", "broadcast from extents of 1");
    if (e == dyn) e = x[i];
  }
  return too_many(d) ? refuse_size() : outcome{d};
}

/// Inserts an axis of extent 1 at position `at` of the result.
constexpr outcome expand_dims(const dims& x, int at) {
  if (x.rank >= max_rank) return limited(dims(max_rank + 1));
  return {joined(joined(part(x, 0, at), dims{1}), part(x, at, x.rank))};
}

constexpr outcome squeeze(const dims& x, const axis_list& axes) {
  for (int a : axes)
    if (!agree(x[a], 1))
      return refuse("an axis to squeeze is not of extent 1", "squeeze axes of extent 1, or slice first");
  return reduce(x, axes, false);
}

/// The range of Python's start:stop:step on an axis of extent n: first index and count.
struct range {
  dim start = 0, count = 0;
  std::int64_t step = 1;
};
constexpr range resolve(dim n, dim start, dim stop, std::int64_t step) {
  const dim low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  const auto clamp = [&](dim i) {
    if (i < 0) i += n;
    return i < low ? low : i > high ? high : i;
  };
  const dim from = clamp(start), to = clamp(stop);
  const dim span = step > 0 ? to - from : from - to;
  // The unsigned magnitude, because −step overflows for the lowest integer.
  const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
  if (span <= 0) return {from < 0 ? dim(0) : from, 0, step};
  if (span.is_symbolic()) return {from, stride == 1 ? span : (span - 1) / dim(stride) + 1, step};
  return {from, static_cast<std::int64_t>((static_cast<std::uint64_t>(span) - 1) / stride) + 1, step};
}

constexpr outcome concat(std::span<const dims> operands, int axis) {
  if (operands.empty()) return refuse("there is nothing to join", "give at least one tensor");
  dims d = operands[0];
  for (std::size_t k = 1; k < operands.size(); ++k) {
    const dims& x = operands[k];
    if (x.rank != d.rank) return refuse("the ranks differ", "expand_dims the smaller one");
    for (int i = 0; i < d.rank; ++i) {
      if (i == axis && d[i].bits > std::numeric_limits<std::int64_t>::max() / 2) return refuse_size();
      if (i == axis) d[i] = d[i] == dyn || x[i] == dyn ? dim(dyn) : d[i] + x[i];
      else if (!agree(d[i], x[i])) return refuse("extents differ off the joined axis", "pad or slice to equal extents");
      else d[i] = either(d[i], x[i]);
    }
  }
  return {d};
}

constexpr outcome matmul(const dims& a, const dims& b) {
  if (a.rank == 0 || b.rank == 0) return refuse("an operand has rank 0", "use * for a scalar factor");
  const dim ka = a[a.rank - 1], kb = b[b.rank == 1 ? 0 : b.rank - 2];
  if (!agree(ka, kb))
    return refuse("inner extents differ", "the last extent of a and the last but one of b must be equal");
  const outcome batch = broadcast(part(a, 0, a.rank > 1 ? a.rank - 2 : 0), part(b, 0, b.rank > 1 ? b.rank - 2 : 0));
  if (batch.error) return refuse("batch extents do not broadcast", "make leading extents equal or 1");
  dims d = batch.shape;
  if (a.rank > 1) d.push(a[a.rank - 2]);
  if (b.rank > 1) d.push(b[b.rank - 1]);
  return limited(d);
}

/// x with axis replaced by the index's extents.
constexpr outcome take(const dims& x, const dims& index, int axis) {
  return limited(joined(joined(part(x, 0, axis), index), part(x, axis + 1, x.rank)));
}

/// index's extents, broadcast against x's off the axis.
constexpr outcome take_along_axis(const dims& x, const dims& index, int axis) {
  if (x.rank != index.rank)
    return refuse("the index has another rank", "give an index of the operand's rank, or use take");
  dims d = index;
  for (int i = 0; i < x.rank; ++i) {
    if (i == axis) continue;
    if (!broadcasts(x[i], index[i])) return refuse("extents differ off the axis", "make them equal or 1");
    d[i] = common(x[i], index[i]);
  }
  return {d};
}

/// base's shape. updates have the shape of take(base, index, axis), or of index if index has base's rank.
constexpr outcome scatter_add(const dims& base, const dims& index, const dims& updates, int axis) {
  const bool along = index.rank == base.rank && updates.rank == base.rank;
  const outcome wanted = along ? take_along_axis(base, index, axis) : take(base, index, axis);
  if (wanted.error) return wanted;
  dims places = base;  // the shape of updates along an axis: base's, except for the axis
  if (along) places[axis] = index[axis];
  if (!fits(wanted.shape, updates) || (along && !(fits(index, updates) && fits(places, updates))))
    return refuse("the updates' shape does not follow from base and index",
                  "give updates shaped like take(a, b, axis)");
  return {base};
}

}  // namespace sinter::op_shapes
