// emit/cuda/text.hpp: literals and operations as CUDA expressions.
#pragma once

#include "../../base/series.hpp"
#include "../text.hpp"

namespace sinter::engine::emit {

/// An extent as an operand of any operator.
inline std::string parenthesised(const ir::dim& d) { return d.is_number() ? d.text() : "(" + d.text() + ")"; }

/// A literal of a dtype's compute type.
inline std::string cuda_literal(dtype type, ir::scalar x) {
  const dtype t = compute_type(type);
  if (is_float(t)) {
    const double v = t == dtype::f64 ? x.f : static_cast<double>(static_cast<float>(x.f));
    if (v != v) return "not_a_number(" + scalar_type(t) + "())";
    if (v - v != 0) return std::string(v < 0 ? "-" : "") + "infinity(" + scalar_type(t) + "())";
  }
  return "(" + scalar_type(t) + ")" + literal(t, x);
}

/// The identity of a reduction's combiner.
inline std::string cuda_identity(const instruction& i) {
  const std::string text = identity_of(i.code, i.type);
  if (text.find("inf") == std::string::npos) return "(" + scalar_type(i.type) + ")" + text;
  return std::string(text[0] == '-' ? "-" : "") + "infinity(" + scalar_type(i.type) + "())";
}

/// The value column of an op; integers wrap, so their operators are unsigned.
inline std::string cuda_expression(ir::op code, dtype result, const series<std::string>& args, dtype operands) {
  const std::string_view value = ir::row(code).value;
  const dtype t = compute_type(result);
  if (is_integer(t) && is_integer(operands) && value.find('(') == std::string_view::npos && args.size() > 1) {
    const std::string u = size_of(operands) == 8 ? "(s_u64)" : "(s_u32)";
    series<std::string> wrapping;
    for (const auto& a : args) wrapping.push_back(u + a);
    return "(" + scalar_type(t) + ")(" + substitute(value, wrapping, scalar_type(t)) + ")";
  }
  std::string text = substitute(value, args, scalar_type(t));
  if (ir::row(code).rule == ir::dtype_rule::conversion && is_narrow(result))
    text = "round_" + element_name(result) + "(" + text + ")";
  return text;
}

}  // namespace sinter::engine::emit
