// onnx/export_rows.hpp: sinter's ops as ONNX nodes, a row for each op.
#pragma once

#include <algorithm>
#include <limits>

#include "../ir/counterparts.hpp"
#include "../ir/erfc_terms.hpp"
#include "export_windows.hpp"

namespace sinter::onnx::out {

/// What writes a node: returns the name of its value.
using writer = std::string (*)(builder& b, node_id id);

struct row {
  ir::op code;
  const char* how;  ///< ONNX's op, or several; "" without a counterpart
  writer write;
};

/// Operands of a pointwise op: one at least has all extents.
inline names_t operands(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  bool whole = n.extents.empty();
  for (const node_id x : n.in) whole = whole || (b.at(x).code != ir::op::constant && b.at(x).code != ir::op::broadcast);
  names_t out;
  for (const node_id x : n.in) {
    out.push_back(whole ? b.broadcastable(x) : b.full(x));
    whole = true;
  }
  return out;
}

template <const char* Op>
std::string one(builder& b, node_id id) {
  return b.node(Op, operands(b, id));
}
// clang-format off
#define SINTER_ONE(NAME)                          \
  inline constexpr char name_of_##NAME[] = #NAME; \
  inline std::string write_##NAME(builder& b, node_id id) { return one<name_of_##NAME>(b, id); }
SINTER_ONE(Add)
SINTER_ONE(Sub)
SINTER_ONE(Mul)
SINTER_ONE(Div)
SINTER_ONE(Pow)
SINTER_ONE(Max)
SINTER_ONE(Min)
SINTER_ONE(Equal)
SINTER_ONE(Where)
SINTER_ONE(Sign)
SINTER_ONE(Exp)
SINTER_ONE(Log)
SINTER_ONE(Sqrt)
SINTER_ONE(Sin)
SINTER_ONE(Cos)
SINTER_ONE(Tan)
SINTER_ONE(Asin)
SINTER_ONE(Acos)
SINTER_ONE(Atan)
SINTER_ONE(Sinh)
SINTER_ONE(Cosh)
SINTER_ONE(Tanh)
SINTER_ONE(Asinh)
SINTER_ONE(Acosh)
SINTER_ONE(Atanh)
SINTER_ONE(Sigmoid)
SINTER_ONE(Erf)
SINTER_ONE(Floor)
SINTER_ONE(Ceil)
SINTER_ONE(Round)
#undef SINTER_ONE
// clang-format on

inline bool is_zero(const builder& b, node_id id) {
  while (b.at(id).code == ir::op::broadcast || b.at(id).code == ir::op::reshape) id = b.at(id).in[0];
  return b.at(id).code == ir::op::constant && b.at(id).attr.literal.f == 0;
}
/// max(x, 0) + log1p(exp(-|x|)) as Softplus; "" for another sum.
inline std::string softplus_of(builder& b, node_id top, node_id rest) {
  const node_id x = b.at(top).in[0];
  for (const ir::op code : {ir::op::log1p, ir::op::exp, ir::op::neg, ir::op::abs}) {
    if (b.at(rest).code != code) return "";
    rest = b.at(rest).in[0];
  }
  const bool fits = b.at(top).code == ir::op::maximum && rest == x && is_zero(b, b.at(top).in[1]);
  return fits ? b.node("Softplus", {b.full(x)}) : "";
}
inline std::string sum_of(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  for (const std::size_t k : {std::size_t{0}, std::size_t{1}})
    if (is_float(n.type) && !b.at(n.in[k]).in.empty())
      if (std::string y = softplus_of(b, n.in[k], n.in[1 - k]); !y.empty()) return y;
  return write_Add(b, id);
}
inline std::string quotient(builder& b, node_id id) {
  if (std::string mean = averaged(b, id); !mean.empty()) return mean;
  return write_Div(b, id);
}

/// Comparisons; bools are compared as numbers.
template <const char* Op>
std::string compared(builder& b, node_id id) {
  names_t in = operands(b, id);
  if (is_bool(b.at(b.at(id).in[0]).type))
    for (auto& x : in) x = b.cast(x, dtype::i32);
  return b.node(Op, in);
}
inline constexpr char less[] = "Less", less_equal[] = "LessOrEqual", greater[] = "Greater",
                      greater_equal[] = "GreaterOrEqual";
inline std::string not_equal(builder& b, node_id id) { return b.node("Not", {b.node("Equal", operands(b, id))}); }

/// Flags and integers have operators of their own.
template <const char* Flags, const char* Bits>
std::string bitwise(builder& b, node_id id) {
  return b.node(is_bool(b.at(id).type) ? Flags : Bits, operands(b, id));
}
inline constexpr char and_flags[] = "And", and_bits[] = "BitwiseAnd", or_flags[] = "Or", or_bits[] = "BitwiseOr",
                      xor_flags[] = "Xor", xor_bits[] = "BitwiseXor", not_flags[] = "Not", not_bits[] = "BitwiseNot";

inline std::string remainder(builder& b, node_id id) {
  return b.node("Mod", operands(b, id), {wire::int_attribute("fmod", 1)});
}
/// BitShift takes unsigned integers, and counts below their width.
inline std::string shift(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  if (!is_unsigned(n.type)) return b.refuse(n, ir::name(n.code), "BitShift takes unsigned integers");
  return b.node("BitShift", operands(b, id),
                {wire::text_attribute("direction", n.code == ir::op::shl ? "LEFT" : "RIGHT")});
}
inline std::string negated(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  if (is_unsigned(n.type)) return b.node("Sub", {b.literal(n.type, 0), b.full(n.in[0])});
  return b.node("Neg", operands(b, id));
}
inline std::string absolute(builder& b, node_id id) { return b.node("Abs", operands(b, id)); }
inline std::string same(builder& b, node_id id) { return b.full(b.at(id).in[b.at(id).code == ir::op::kinked]); }
inline std::string cast_to(builder& b, node_id id) { return b.cast(b.full(b.at(id).in[0]), b.at(id).type); }

inline std::string exp2_of(builder& b, node_id id) {
  return b.node("Pow", {b.literal(b.at(id).type, 2), b.full(b.at(id).in[0])});
}
inline std::string log2_of(builder& b, node_id id) {
  return b.node("Mul", {b.node("Log", operands(b, id)), b.literal(b.at(id).type, 1.4426950408889634)});
}
inline std::string rsqrt_of(builder& b, node_id id) { return b.node("Reciprocal", {b.node("Sqrt", operands(b, id))}); }
/// In f64, which keeps the exponent of large arguments; 2 - erfc(-x) for negative ones.
inline std::string erfc_of(builder& b, node_id id) {
  const dtype t = b.at(id).type;
  const auto number = [&](double x) { return b.literal(dtype::f64, x); };
  const std::string given = b.full(b.at(id).in[0]), x = t == dtype::f64 ? given : b.cast(given, dtype::f64);
  const std::string size = b.node("Abs", {x}), two = number(2);
  const std::string small = b.node("Div", {two, b.node("Add", {size, two})});
  const std::string u = b.node("Sub", {b.node("Mul", {small, two}), number(1)});
  std::string sum = number(std::end(ir::erfc_terms)[-1]);
  for (std::size_t k = std::size(ir::erfc_terms) - 1; k-- > 0;)
    sum = b.node("Add", {b.node("Mul", {sum, u}), number(ir::erfc_terms[k])});
  const std::string power = b.node("Exp", {b.node("Neg", {b.node("Mul", {size, size})})});
  const std::string tail = b.node("Mul", {b.node("Mul", {small, sum}), power});
  const std::string all = b.node("Where", {b.node("Less", {x, number(0)}), b.node("Sub", {two, tail}), tail});
  return t == dtype::f64 ? all : b.cast(all, t);
}
inline std::string cbrt_of(builder& b, node_id id) {
  const std::string x = b.full(b.at(id).in[0]);
  const std::string root = b.node("Pow", {b.node("Abs", {x}), b.literal(b.at(id).type, 1.0 / 3)});
  return b.node("Mul", {b.node("Sign", {x}), root});
}
/// 2t / (1 - t) with t = tanh(x / 2) near 0; exp(x) - 1 elsewhere.
inline std::string expm1_of(builder& b, node_id id) {
  const dtype t = b.at(id).type;
  const std::string x = b.full(b.at(id).in[0]), one = b.literal(t, 1);
  const std::string half = b.node("Tanh", {b.node("Mul", {x, b.literal(t, 0.5)})});
  const std::string near = b.node("Div", {b.node("Add", {half, half}), b.node("Sub", {one, half})});
  const std::string far = b.node("Sub", {b.node("Exp", {x}), one});
  return b.node("Where", {b.node("Less", {b.node("Abs", {x}), b.literal(t, 0.5)}), near, far});
}
/// log(u) x / (u - 1) with u = 1 + x; x itself where u rounds to 1, and for infinity.
inline std::string log1p_of(builder& b, node_id id) {
  const dtype t = b.at(id).type;
  const std::string x = b.full(b.at(id).in[0]), one = b.literal(t, 1);
  const std::string u = b.node("Add", {x, one}), log = b.node("Log", {u});
  const std::string exact = b.node("Mul", {log, b.node("Div", {x, b.node("Sub", {u, one})})});
  const std::string plain = b.node(
      "Or", {b.node("Equal", {u, one}), b.node("Equal", {x, b.literal(t, std::numeric_limits<double>::infinity())})});
  return b.node("Where", {plain, x, exact});
}
inline std::string hypot_of(builder& b, node_id id) {
  const dtype t = b.at(id).type;
  const names_t in = operands(b, id);
  const std::string p = b.node("Abs", {in[0]}), q = b.node("Abs", {in[1]});
  const std::string most = b.node("Max", {p, q}), ratio = b.node("Div", {b.node("Min", {p, q}), most});
  const std::string root = b.node("Sqrt", {b.node("Add", {b.node("Mul", {ratio, ratio}), b.literal(t, 1)})});
  const std::string plain =
      b.node("Or", {b.node("Equal", {most, b.literal(t, 0)}),
                    b.node("Equal", {most, b.literal(t, std::numeric_limits<double>::infinity())})});
  return b.node("Where", {plain, most, b.node("Mul", {most, root})});
}
inline std::string truncated(builder& b, node_id id) {
  const std::string x = b.full(b.at(id).in[0]);
  return b.node("Where", {b.node("Less", {x, b.literal(b.at(id).type, 0)}), b.node("Ceil", {x}), b.node("Floor", {x})});
}
/// IsInf takes f32 and f64 alone.
inline std::string tested(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  std::string x = b.full(n.in[0]);
  if (size_of(b.at(n.in[0]).type) < 4) x = b.cast(x, dtype::f32);
  if (n.code == ir::op::isnan) return b.node("IsNaN", {x});
  if (n.code == ir::op::isinf) return b.node("IsInf", {x});
  return b.node("Not", {b.node("Or", {b.node("IsNaN", {x}), b.node("IsInf", {x})})});
}

inline std::string counted(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  const auto axis = static_cast<std::size_t>(n.attr.ints[0]);
  ir::shape flat(n.extents.size(), ir::dim(1));
  flat[axis] = n.extents[axis];
  const std::string none = b.literal(dtype::i64, 0), step = b.literal(dtype::i64, 1);
  const std::string end = b.node("Reshape", {b.size(n.extents[axis]), b.list({})});
  return b.expanded(b.cast(b.reshaped(b.node("Range", {none, end, step}), flat), n.type), n.extents);
}
inline std::string shaped(builder& b, node_id id) { return b.reshaped(b.full(b.at(id).in[0]), b.at(id).extents); }
inline std::string widened(builder& b, node_id id) { return b.expanded(b.full(b.at(id).in[0]), b.at(id).extents); }
inline std::string permuted(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  return b.transposed(b.full(n.in[0]), {n.attr.ints.begin(), n.attr.ints.end()});
}
inline std::string sliced(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  const std::size_t rank = n.extents.size();
  ir::shape starts, ends;
  std::vector<std::int64_t> axes, steps;
  const ir::shape& from = b.at(n.in[0]).extents;
  for (std::size_t k = 0; k < rank; ++k) {
    const ir::dim &start = n.attr.dims[rank + k], count = n.extents[k];
    const std::int64_t step = n.attr.ints[k];
    if (step == 1 && start.is(0) && count == from[k]) continue;
    ir::dim end = start + count * ir::dim(step);
    // A negative end counts from the axis' end.
    if (step < 0 && end.upper_bound() < 0) end = end - from[k];
    else if (step < 0 && end.lower_bound() < 0 && !count.is(0))
      return b.refuse(n, "slice", "backwards over an open size");
    starts.push_back(start);
    ends.push_back(count.is(0) ? start : end);
    axes.push_back(static_cast<std::int64_t>(k));
    steps.push_back(step);
  }
  if (axes.empty()) return b.full(n.in[0]);
  return b.node("Slice", {b.full(n.in[0]), b.sizes(starts), b.sizes(ends), b.list(axes), b.list(steps)});
}
inline std::string padded(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  const std::string x = b.full(n.in[0]), value = b.literal(n.type, n.attr.literal);
  if (!is_bool(n.type))
    return b.node("Pad", {x, b.sizes(n.attr.dims), value}, {wire::text_attribute("mode", "constant")});
  const std::string numbers = b.node("Pad", {b.cast(x, dtype::i32), b.sizes(n.attr.dims), b.cast(value, dtype::i32)},
                                     {wire::text_attribute("mode", "constant")});
  return b.cast(numbers, dtype::b8);
}
inline std::string joined(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  names_t in;
  for (const node_id x : n.in) in.push_back(b.full(x));
  return b.node("Concat", in, {wire::int_attribute("axis", n.attr.ints[0])});
}

inline std::string reduced_over(builder& b, const char* op, const std::string& x, const series<std::int64_t>& axes) {
  return b.node(op, {x, b.list({axes.begin(), axes.end()})}, {wire::int_attribute("keepdims", 0)});
}
inline std::string reduced(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  if (n.attr.ints.empty()) return b.full(n.in[0]);
  if (std::string pool = pooled(b, id); !pool.empty()) return pool;
  if (std::string conv = convolved_by_channel(b, id); !conv.empty()) return conv;
  const std::string x = b.full(n.in[0]);
  switch (n.attr.combiner) {
    case ir::op::add:
      return reduced_over(b, "ReduceSum", x, n.attr.ints);
    case ir::op::mul:
      return reduced_over(b, "ReduceProd", x, n.attr.ints);
    case ir::op::maximum:
      return reduced_over(b, "ReduceMax", x, n.attr.ints);
    case ir::op::minimum:
      return reduced_over(b, "ReduceMin", x, n.attr.ints);
    default:
      break;
  }
  if (!is_bool(n.type)) return b.refuse(n, "reduce " + std::string(ir::name(n.attr.combiner)), "of integers");
  const bool any = n.attr.combiner == ir::op::bit_or;
  return b.cast(reduced_over(b, any ? "ReduceMax" : "ReduceMin", b.cast(x, dtype::i32), n.attr.ints), dtype::b8);
}
inline std::string squares(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  const std::string x = b.cast(b.full(n.in[0]), dtype::f64);
  return n.attr.ints.empty() ? b.node("Mul", {x, x}) : reduced_over(b, "ReduceSumSquare", x, n.attr.ints);
}
inline std::string extreme_place(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  return b.node(n.attr.combiner == ir::op::maximum ? "ArgMax" : "ArgMin", {b.full(n.in[0])},
                {wire::int_attribute("axis", n.attr.ints[0]), wire::int_attribute("keepdims", 0)});
}
inline std::string scanned(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  if (n.attr.combiner != ir::op::add || n.in.size() > 1)
    return b.refuse(n, "scan " + std::string(ir::name(n.attr.combiner)), n.in.size() > 1 ? "with factors" : "");
  return b.node("CumSum", {b.full(n.in[0]), b.literal(dtype::i64, ir::scalar{0, n.attr.ints[0]})},
                {wire::int_attribute("reverse", n.attr.ints[1])});
}
inline std::string order_of(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  const auto axis = static_cast<std::size_t>(n.attr.ints[0]);
  return b.node("TopK", {b.full(n.in[0]), b.size(n.extents[axis])},
                {wire::int_attribute("axis", n.attr.ints[0]), wire::int_attribute("largest", n.attr.ints[1]),
                 wire::int_attribute("sorted", 1)},
                2)[1];
}

/// Row-major operands of a product as matrices.
inline std::string product(builder& b, node_id id) {
  if (std::string conv = convolved(b, id); !conv.empty()) return conv;
  if (std::string conv = convolved_in_groups(b, id); !conv.empty()) return conv;
  const ir::node& n = b.at(id);
  const ir::shape &x = b.at(n.in[0]).extents, &y = b.at(n.in[1]).extents;
  const auto nb = static_cast<std::size_t>(n.attr.ints[0]), nk = static_cast<std::size_t>(n.attr.ints[1]);
  const std::string a = b.full(n.in[0]), c = b.full(n.in[1]);
  const std::size_t rows = x.size() - nb - nk, columns = y.size() - nb - nk;
  if (nk == 1 && columns == 1 && (rows == 1 || (nb == 0 && rows > 0))) return b.node("MatMul", {a, c});
  ir::shape left(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(nb)), right = left;
  const ir::dim inner = ir::product(std::span(x).last(nk));
  left.push_back(ir::product(std::span(x).subspan(nb, rows)));
  left.push_back(inner);
  right.push_back(inner);
  right.push_back(ir::product(std::span(y).last(columns)));
  return b.reshaped(b.node("MatMul", {b.reshaped(a, left), b.reshaped(c, right)}), n.extents);
}

/// The index clamped into the axis, as gather does.
inline std::string clamped(builder& b, const ir::node& index, const std::string& name, const ir::dim& extent) {
  const std::string wide = index.type == dtype::i64 ? name : b.cast(name, dtype::i64);
  const std::string last = b.node("Reshape", {b.size(extent - 1), b.list({})});
  return b.node("Max", {b.node("Min", {wide, last}), b.literal(dtype::i64, 0)});
}
inline std::string gathered(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  const ir::node& index = b.at(n.in[1]);
  const ir::dim extent = b.at(n.in[0]).extents[static_cast<std::size_t>(n.attr.ints[0])];
  const attributes_t along{wire::int_attribute("axis", n.attr.ints[0])};
  if (ir::takes_slices(b.g, n)) {
    const ir::shape flat{ir::product(b.at(index.in[0]).extents)};
    return b.node("Gather", {b.full(n.in[0]), clamped(b, index, b.reshaped(b.full(index.in[0]), flat), extent)}, along);
  }
  return b.node("GatherElements", {b.full(n.in[0]), clamped(b, index, b.full(n.in[1]), extent)}, along);
}
/// Updates out of range go to a row behind the base, which is cut off.
inline std::string scattered(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  const auto axis = static_cast<std::size_t>(n.attr.ints[0]);
  if (is_bool(n.type)) return b.refuse(n, ir::name(n.code), "of bool");
  const ir::dim extent = n.extents[axis];
  ir::shape widths(2 * n.extents.size(), ir::dim(0));
  widths[n.extents.size() + axis] = 1;
  const std::string base = b.node("Pad", {b.full(n.in[0]), b.sizes(widths), b.literal(n.type, 0)},
                                  {wire::text_attribute("mode", "constant")});
  const std::string index = b.at(n.in[1]).type == dtype::i64 ? b.full(n.in[1]) : b.cast(b.full(n.in[1]), dtype::i64);
  const std::string end = b.node("Reshape", {b.size(extent), b.list({})});
  const std::string outside =
      b.node("Or", {b.node("Less", {index, b.literal(dtype::i64, 0)}), b.node("GreaterOrEqual", {index, end})});
  const ir::op by = n.code == ir::op::scatter_add ? ir::op::add : n.attr.combiner;
  const char* const how = by == ir::op::add       ? "add"
                          : by == ir::op::mul     ? "mul"
                          : by == ir::op::maximum ? "max"
                          : by == ir::op::minimum ? "min"
                                                  : "none";
  const std::string all = b.node("ScatterElements", {base, b.node("Where", {outside, end, index}), b.full(n.in[2])},
                                 {wire::int_attribute("axis", n.attr.ints[0]), wire::text_attribute("reduction", how)});
  return b.node("Slice", {all, b.list({0}), b.size(extent), b.list({n.attr.ints[0]})});
}
inline std::string extent_value(builder& b, node_id id) {
  return b.node("Reshape", {b.size(b.at(id).attr.dims[0]), b.list({})});
}
inline std::string windows_of(builder& b, node_id id) { return gathered_window(b, id); }
inline std::string none_for(builder& b, node_id id) { return b.refuse(b.at(id), ir::name(b.at(id).code), ""); }

/// A row for each op except inputs, constants, steps and their results, which the walk over a graph writes.
inline constexpr row rows[] = {
    {ir::op::add, "Add, Softplus", sum_of},
    {ir::op::sub, "Sub", write_Sub},
    {ir::op::mul, "Mul", write_Mul},
    {ir::op::div, "Div, AveragePool", quotient},
    {ir::op::fmod, "Mod", remainder},
    {ir::op::pow, "Pow", write_Pow},
    {ir::op::maximum, "Max", write_Max},
    {ir::op::minimum, "Min", write_Min},
    {ir::op::hypot, "Abs, Max, Min, Div, Sqrt, Where", hypot_of},
    {ir::op::eq, "Equal", write_Equal},
    {ir::op::ne, "Equal, Not", not_equal},
    {ir::op::lt, "Less", compared<less>},
    {ir::op::le, "LessOrEqual", compared<less_equal>},
    {ir::op::gt, "Greater", compared<greater>},
    {ir::op::ge, "GreaterOrEqual", compared<greater_equal>},
    {ir::op::bit_and, "And, BitwiseAnd", bitwise<and_flags, and_bits>},
    {ir::op::bit_or, "Or, BitwiseOr", bitwise<or_flags, or_bits>},
    {ir::op::bit_xor, "Xor, BitwiseXor", bitwise<xor_flags, xor_bits>},
    {ir::op::bit_not, "Not, BitwiseNot", bitwise<not_flags, not_bits>},
    {ir::op::shl, "BitShift", shift},
    {ir::op::shr, "BitShift", shift},
    {ir::op::select, "Where", write_Where},
    {ir::op::kinked, "the same value", same},
    {ir::op::neg, "Neg", negated},
    {ir::op::abs, "Abs", absolute},
    {ir::op::sign, "Sign", write_Sign},
    {ir::op::exp, "Exp", write_Exp},
    {ir::op::exp2, "Pow", exp2_of},
    {ir::op::expm1, "Tanh, Exp, Where", expm1_of},
    {ir::op::log, "Log", write_Log},
    {ir::op::log2, "Log, Mul", log2_of},
    {ir::op::log1p, "Log, Div, Where", log1p_of},
    {ir::op::sqrt, "Sqrt", write_Sqrt},
    {ir::op::root_of_squares, "Sqrt", write_Sqrt},
    {ir::op::rsqrt, "Sqrt, Reciprocal", rsqrt_of},
    {ir::op::cbrt, "Abs, Pow, Sign", cbrt_of},
    {ir::op::sin, "Sin", write_Sin},
    {ir::op::cos, "Cos", write_Cos},
    {ir::op::tan, "Tan", write_Tan},
    {ir::op::asin, "Asin", write_Asin},
    {ir::op::acos, "Acos", write_Acos},
    {ir::op::atan, "Atan", write_Atan},
    {ir::op::sinh, "Sinh", write_Sinh},
    {ir::op::cosh, "Cosh", write_Cosh},
    {ir::op::tanh, "Tanh", write_Tanh},
    {ir::op::asinh, "Asinh", write_Asinh},
    {ir::op::acosh, "Acosh", write_Acosh},
    {ir::op::atanh, "Atanh", write_Atanh},
    {ir::op::sigmoid, "Sigmoid", write_Sigmoid},
    {ir::op::erf, "Erf", write_Erf},
    {ir::op::erfc, "Exp, Div, Mul, Add, Where", erfc_of},
    {ir::op::floor, "Floor", write_Floor},
    {ir::op::ceil, "Ceil", write_Ceil},
    {ir::op::round, "Round", write_Round},
    {ir::op::trunc, "Ceil, Floor, Where", truncated},
    {ir::op::isnan, "IsNaN", tested},
    {ir::op::isinf, "IsInf", tested},
    {ir::op::isfinite, "IsNaN, IsInf, Not", tested},
    {ir::op::cast, "Cast", cast_to},
    {ir::op::identity, "the same value", same},
    {ir::op::stop_gradient, "the same value", same},
    {ir::op::iota, "Range, Expand", counted},
    {ir::op::reshape, "Reshape", shaped},
    {ir::op::permute, "Transpose", permuted},
    {ir::op::broadcast, "Expand", widened},
    {ir::op::slice, "Slice", sliced},
    {ir::op::window, "Conv, MaxPool, AveragePool or Gather", windows_of},
    {ir::op::pad, "Pad", padded},
    {ir::op::concat, "Concat", joined},
    {ir::op::reduce, "ReduceSum, ReduceProd, ReduceMax, ReduceMin", reduced},
    {ir::op::arg_reduce, "ArgMax, ArgMin", extreme_place},
    {ir::op::gather, "Gather, GatherElements", gathered},
    {ir::op::scatter_add, "ScatterElements", scattered},
    {ir::op::scatter, "ScatterElements", scattered},
    {ir::op::dot, "MatMul", product},
    {ir::op::scan, "CumSum", scanned},
    {ir::op::argsort, "TopK", order_of},
    {ir::op::size, "Shape, Gather", extent_value},
    {ir::op::sum_squares, "ReduceSumSquare", squares},
};

}  // namespace sinter::onnx::out
