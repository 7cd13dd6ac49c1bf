// rewrite/rules.hpp: the algebra table: an op, a pattern, a replacement.
#pragma once

#include <limits>

#include "movement.hpp"
#include "taps.hpp"

namespace sinter::engine::rewrite {

/// A replacement equal in value to the node, or an empty value if the rule does not apply. Floating rules are exact for NaN,
/// infinities and signs of zeros. Exceptions are sums of equal elements, which become one product, merged sums, sums of
/// products, and powers, whose products round at most three times.
struct rule {
  op code;
  const char* name;
  value (*apply)(const site&);
};

/// Stands for every pointwise op in a rule.
inline constexpr op any_pointwise = op::input;

inline bool whole(const site& s) { return !is_float(s.type()); }
inline bool same_operands(const site& s) { return s.n().in[0] == s.n().in[1]; }

/// The reciprocal of a constant power of two if both are normal numbers; else 0.
inline double exact_reciprocal(const site& s, std::size_t k) {
  const auto x = s.literal(k);
  if (!x || !is_float(s.type())) return 0;
  int exponent = 0;
  if (std::fabs(std::frexp(x->f, &exponent)) != 0.5) return 0;
  const int most = s.type() == dtype::f16 ? 14 : size_of(s.type()) == 1 ? 5 : 126;
  return std::abs(exponent - 1) <= most ? 1 / x->f : 0;
}

/// Constants go to the right of a commutative op, so that the other rules look only there.
inline value constant_right(const site& s) {
  return s.literal(0) && !s.literal(1) ? push(s.n().code, {s.in(1), s.in(0)}) : value();
}

/// pow(x, 0.5). Unlike sqrt it is 0 at -0, and infinite at -infinity.
inline value root(const site& s) {
  const value infinite = s.constant(std::numeric_limits<double>::infinity());
  const value root = push(op::add, {push(op::sqrt, {s.in(0)}), s.constant(0.0)});
  return select(push(op::eq, {s.in(0), -infinite}), infinite, root);
}

#define SINTER_WHEN(condition, replacement) [](const site& s) { return (condition) ? value(replacement) : value(); }

// clang-format off
inline constexpr rule rules[] = {
  {op::identity,      "identity x = x",           SINTER_WHEN(true, s.in(0))},
  {op::stop_gradient, "stop_gradient x = x",      SINTER_WHEN(true, s.in(0))},
  {op::kinked,        "kinked(c, x, y) = x",      SINTER_WHEN(true, s.in(1))},

  {op::add,     "c + x = x + c",                  constant_right},
  {op::mul,     "c * x = x * c",                  constant_right},
  {op::bit_and, "c & x = x & c",                  constant_right},
  {op::bit_or,  "c | x = x | c",                  constant_right},
  {op::bit_xor, "c ^ x = x ^ c",                  constant_right},

  {op::add, "x + 0 = x",                          SINTER_WHEN(s.adds_nothing(1), s.in(0))},
  {op::sub, "x - 0 = x",                          SINTER_WHEN(s.subtracts_nothing(1), s.in(0))},
  {op::sub, "0 - x = -x",                         SINTER_WHEN(whole(s) && s.is(0, 0), -s.in(1))},
  {op::sub, "x - x = 0",                          SINTER_WHEN(whole(s) && same_operands(s), s.constant(0.0))},
  {op::add, "x + -y = x - y",                     SINTER_WHEN(s.made_by(op::neg, 1), s.in(0) - s.through(1))},
  {op::add, "-x + y = y - x",                     SINTER_WHEN(s.made_by(op::neg, 0), s.in(1) - s.through(0))},
  {op::sub, "x - -y = x + y",                     SINTER_WHEN(s.made_by(op::neg, 1), s.in(0) + s.through(1))},
  {op::mul, "x * 1 = x",                          SINTER_WHEN(s.is(1, 1), s.in(0))},
  {op::mul, "x * -1 = -x",                        SINTER_WHEN(s.is(1, -1), -s.in(0))},
  {op::mul, "x * 0 = 0",                          SINTER_WHEN(whole(s) && s.is(1, 0), s.in(1))},
  {op::mul, "-x * -y = x * y",                    SINTER_WHEN(s.made_by(op::neg, 0) && s.made_by(op::neg, 1), s.through(0) * s.through(1))},
  {op::div, "x / 1 = x",                          SINTER_WHEN(s.is(1, 1), s.in(0))},
  {op::div, "x / -1 = -x",                        SINTER_WHEN(s.is(1, -1), -s.in(0))},
  {op::div, "x / 2^k = x * 2^-k",                 SINTER_WHEN(exact_reciprocal(s, 1) != 0, s.in(0) * exact_reciprocal(s, 1))},
  {op::div, "-x / -y = x / y",                    SINTER_WHEN(!whole(s) && s.made_by(op::neg, 0) && s.made_by(op::neg, 1), s.through(0) / s.through(1))},
  {op::pow, "x ^ 0 = 1",                          SINTER_WHEN(s.is(1, 0), s.constant(1.0))},
  {op::pow, "x ^ 1 = x",                          SINTER_WHEN(s.is(1, 1), s.in(0))},
  {op::pow, "x ^ 2 = x * x",                      SINTER_WHEN(s.is(1, 2), s.in(0) * s.in(0))},
  {op::pow, "x ^ -1 = 1 / x",                     SINTER_WHEN(!whole(s) && s.is(1, -1), 1.0 / s.in(0))},
  {op::pow, "x ^ 3 = x * x * x",                  SINTER_WHEN(s.is(1, 3), s.in(0) * s.in(0) * s.in(0))},
  {op::pow, "x ^ 4 = (x * x) * (x * x)",          SINTER_WHEN(s.is(1, 4), s.in(0) * s.in(0) * (s.in(0) * s.in(0)))},
  {op::pow, "x ^ -2 = (1 / x) * (1 / x)",         SINTER_WHEN(!whole(s) && s.is(1, -2), 1.0 / s.in(0) * (1.0 / s.in(0)))},
  {op::pow, "x ^ 0.5 = sqrt(x)",                  SINTER_WHEN(!whole(s) && s.is(1, 0.5), root(s))},
  {op::neg, "- -x = x",                           SINTER_WHEN(s.made_by(op::neg), s.through(0))},
  {op::neg, "-(x - y) = y - x",                   SINTER_WHEN(whole(s) && s.made_by(op::sub), s.through(0, 1) - s.through(0, 0))},
  {op::abs, "|-x| = |x|",                         SINTER_WHEN(s.made_by(op::neg) && !is_unsigned(s.type()), push(op::abs, {s.through(0)}))},
  {op::abs, "||x|| = |x|",                        SINTER_WHEN(s.made_by(op::abs), s.in(0))},
  {op::maximum, "max(x, x) = x",                  SINTER_WHEN(same_operands(s), s.in(0))},
  {op::minimum, "min(x, x) = x",                  SINTER_WHEN(same_operands(s), s.in(0))},

  {op::bit_and, "x & x = x",                      SINTER_WHEN(same_operands(s), s.in(0))},
  {op::bit_or,  "x | x = x",                      SINTER_WHEN(same_operands(s), s.in(0))},
  {op::bit_and, "x & 0 = 0",                      SINTER_WHEN(s.is(1, 0), s.in(1))},
  {op::bit_and, "x & ~0 = x",                     SINTER_WHEN(s.all_ones(1), s.in(0))},
  {op::bit_or,  "x | 0 = x",                      SINTER_WHEN(s.is(1, 0), s.in(0))},
  {op::bit_or,  "x | ~0 = ~0",                    SINTER_WHEN(s.all_ones(1), s.in(1))},
  {op::bit_xor, "x ^ 0 = x",                      SINTER_WHEN(s.is(1, 0), s.in(0))},
  {op::bit_not, "~ ~x = x",                       SINTER_WHEN(s.made_by(op::bit_not), s.through(0))},
  {op::shl,     "x << 0 = x",                     SINTER_WHEN(s.is(1, 0), s.in(0))},
  {op::shr,     "x >> 0 = x",                     SINTER_WHEN(s.is(1, 0), s.in(0))},

  {op::select, "select(constant, x, y)",          SINTER_WHEN(s.literal(0), s.literal(0)->i != 0 ? s.in(1) : s.in(2))},
  {op::select, "select(c, x, x) = x",             SINTER_WHEN(s.n().in[1] == s.n().in[2], s.in(1))},
  {op::select, "select(!c, x, y) = select(c, y, x)", SINTER_WHEN(s.made_by(op::bit_not), select(s.through(0), s.in(2), s.in(1)))},
  {op::select, "select(c, select(c, x, y), z)",   SINTER_WHEN(s.made_by(op::select, 1) && s.operand(1).in[0] == s.n().in[0], select(s.in(0), s.through(1, 1), s.in(2)))},
  {op::select, "select(c, x, select(c, y, z))",   SINTER_WHEN(s.made_by(op::select, 2) && s.operand(2).in[0] == s.n().in[0], select(s.in(0), s.in(1), s.through(2, 2)))},

  {op::cast, "cast to the same dtype",            SINTER_WHEN(s.operand(0).type == s.type() && is_rounded(s.operand(0)), s.in(0))},
  {op::cast, "cast of an exact cast",             SINTER_WHEN(s.made_by(op::cast) && collapses(s.through(0).type(), s.operand(0).type, s.type()) && (s.through(0).type() != s.type() || is_rounded(s.through(0).get())), cast(s.through(0), s.type()))},

  {any_pointwise, "pointwise of broadcasts",      pointwise_of_broadcasts},

  {op::reshape,   "reshape to the same extents",  SINTER_WHEN(s.operand(0).extents == s.n().extents, s.in(0))},
  {op::reshape,   "reshape of reshape",           SINTER_WHEN(s.made_by(op::reshape), reshape(s.through(0), s.n().extents))},
  {op::reshape,   "reshape of constant",          moved_constant},
  {op::permute,   "permute of nothing",           permute_of_nothing},
  {op::permute,   "permute of permute",           compose_permutes},
  {op::permute,   "permute of constant",          moved_constant},
  {op::permute,   "permute of dot",               turned_product},
  {op::broadcast, "broadcast to the same extents", SINTER_WHEN(s.operand(0).extents == s.n().extents, s.in(0))},
  {op::broadcast, "broadcast of broadcast",       SINTER_WHEN(s.made_by(op::broadcast), broadcast(s.through(0), s.n().extents))},
  {op::broadcast, "broadcast of constant",        moved_constant},
  {op::slice,     "slice of everything",          slice_of_everything},
  {op::slice,     "slice of slice",               compose_slices},
  {op::slice,     "slice of constant",            moved_constant},
  {op::slice,     "slice of a product of windows", slice_of_windows},
  {op::pad,       "pad of nothing",               pad_of_nothing},
  {op::concat,    "concat of one",                SINTER_WHEN(s.arity() == 1, s.in(0))},
  {op::gather,    "gather of what may be nothing", gather_of_nothing},
  {op::gather,    "gather of constant",           moved_constant},

  {op::reduce, "reduce of nothing",               reduce_of_nothing},
  {op::reduce, "reduce over extent 1",            reduce_over_ones},
  {op::reduce, "reduce of reduce",                reduce_of_reduce},
  {op::reduce, "reduce of dot",                   reduce_of_product},
  {op::reduce, "reduce of constant",              reduce_of_constant},
  {op::reduce, "reduce of a few taps",            reduce_of_few_taps},
  {op::reduce, "reduce of broadcast",             reduce_of_broadcast},
  {op::scatter_add, "scatter_add of one index per row", scatter_of_one},
  {op::scatter_add, "scatter_add of halves",      scatter_of_halves},
  {op::scatter,     "product of halves at indices", scatter_of_halves},
  {op::add, "scatter_add into zeros + x",         [](const site& s) { return scatter_into(s, 0); }},
  {op::add, "x + scatter_add into zeros",         [](const site& s) { return scatter_into(s, 1); }},
};
// clang-format on

#undef SINTER_WHEN

}  // namespace sinter::engine::rewrite
