// rewrite/match.hpp: a rule's view of the node that it may replace.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "../base/series.hpp"
#include "../ir/value.hpp"
#include "../ir/vocabulary.hpp"

namespace sinter::engine::rewrite {

using ir::dim;
using ir::node;
using ir::op;
using ir::scalar;
using ir::shape;
using ir::value;
using axes_t = series<std::int64_t>;

/// A literal rounded to its dtype.
inline scalar rounded(dtype t, const scalar& x) {
  return visit_dtype(t, [&](auto element) -> scalar {
    using T = typename decltype(element)::type;
    if constexpr (is_float(dtype_of<T>)) return {vocabulary::convert<double>(vocabulary::convert<T>(x.f)), 0};
    else return {0, vocabulary::convert<std::int64_t>(vocabulary::convert<T>(x.i))};
  });
}

/// Facts from the graph before a walk about a node's surroundings, which the nodes below it do not show.
struct surroundings {
  series<op> made_by;  ///< of each operand
  series<char> alone;  ///< of each operand: whether it, and the operand of which it is a reshape, have no other reader
  bool by_elements = false;  ///< read by nodes other than products, also through views: its layout in memory matters
};

/// A node under rewriting, with its operands as values that carry its location.
struct site {
  value v;
  const surroundings* around = nullptr;  ///< null if unknown

  const node& n() const { return v.get(); }
  dtype type() const { return n().type; }
  std::size_t arity() const { return n().in.size(); }
  value in(std::size_t k) const { return {v.owner(), n().in[k], v.where()}; }
  const node& operand(std::size_t k) const { return v.owner()[n().in[k]]; }

  /// Operand k if an operation of this kind made it, else null.
  const node* made_by(op code, std::size_t k = 0) const { return operand(k).code == code ? &operand(k) : nullptr; }
  /// Operand j of operand k.
  value through(std::size_t k, std::size_t j = 0) const { return {v.owner(), operand(k).in[j], v.where()}; }

  /// True when only this node reads operand k, and it is not a result.
  bool reads_alone(std::size_t k) const {
    return around && k < around->alone.size() && around->alone[k] && around->made_by[k] == operand(k).code;
  }

  /// The value of operand k when it is a constant.
  std::optional<scalar> literal(std::size_t k) const {
    const node* c = made_by(op::constant, k);
    return c ? std::optional(rounded(c->type, c->attr.literal)) : std::nullopt;
  }
  /// True when operand k is the constant c; 0.0 and -0.0 both count as 0.
  bool is(std::size_t k, double c) const {
    const auto x = literal(k);
    if (!x) return false;
    const dtype t = operand(k).type;
    if (is_float(t)) return x->f == c;
    return (is_unsigned(t) ? static_cast<double>(static_cast<std::uint64_t>(x->i)) : static_cast<double>(x->i)) == c;
  }
  /// True when adding operand k changes nothing: x + 0.0 would turn -0.0 into 0.0.
  bool adds_nothing(std::size_t k) const { return is(k, 0) && (!is_float(type()) || std::signbit(literal(k)->f)); }
  bool subtracts_nothing(std::size_t k) const {
    return is(k, 0) && (!is_float(type()) || !std::signbit(literal(k)->f));
  }
  bool all_ones(std::size_t k) const {
    const auto x = literal(k);
    return x && *x == rounded(type(), {0, is_bool(type()) ? 1 : -1});
  }

  /// A constant with this node's dtype and extents.
  value constant(double x) const { return v.like(x); }
  value constant(scalar x) const {
    return {v.owner(), v.owner().constant(type(), x, n().extents, v.where()), v.where()};
  }
};

/// True when every value of dtype a is a value of dtype b.
inline bool exact(dtype a, dtype b) {
  if (a == b || is_bool(a)) return true;
  if (is_bool(b)) return false;
  const int da = digits_of(a), db = digits_of(b);
  // bf16 and f32 have larger exponents than f16, and all 16-bit floats have larger ones than 8-bit floats.
  if (is_float(a)) return is_float(b) && da <= db && (size_of(a) == 1 ? size_of(b) > 1 : size_of(b) > 2);
  if (is_float(b)) return da <= db;
  return is_unsigned(b) ? is_unsigned(a) && da <= db : da <= db;
}

/// Whether a value is rounded to its dtype. Kernels round values of 16 and 8 bits only when they store or cast them.
inline bool is_rounded(const ir::node& n) {
  return !is_narrow(n.type) || n.code == op::input || n.code == op::constant || n.code == op::cast;
}

/// True when casting x: A to B and then to C is casting x to C.
inline bool collapses(dtype a, dtype b, dtype c) {
  if (!exact(a, b) || (a == b && size_of(a) == 2 && is_float(a))) return false;  // the cast rounds a computed value
  // Integers wrap into C, floats saturate.
  const bool whole_through_float = !is_float(a) && is_float(b);
  return !whole_through_float || is_float(c) || is_bool(c) || exact(a, c);
}

}  // namespace sinter::engine::rewrite
