// ir/ops/constant.hpp: constant, one literal everywhere: attr.type, attr.dims, attr.literal; for a constant apart, ints =
// {its source}.
#pragma once

#include <bit>
#include <limits>

#include "elements.hpp"

namespace sinter::ir::ops {

/// A literal that reads back with the same bits; a NaN with a payload prints its bits.
inline std::string literal_text(dtype t, scalar literal) {
  if (is_bool(t)) return literal.i != 0 ? "true" : "false";
  if (is_unsigned(t)) return std::to_string(static_cast<std::uint64_t>(literal.i));
  if (!is_float(t)) return std::to_string(literal.i);
  const auto bits = std::bit_cast<std::uint64_t>(literal.f);
  if (literal.f != literal.f && bits != std::bit_cast<std::uint64_t>(std::numeric_limits<double>::quiet_NaN()))
    return "nan:" + text::hex(bits);
  return text::number(literal.f);
}

struct constant_op : without_derivative, without_lanes, without_rounding {
  static void infer(inference& f) {
    f.expect(0, !f.n.attr.ints.empty(), f.n.attr.dims.size());
    f.n.type = f.n.attr.type;
    f.n.extents = f.n.attr.dims;
  }
  static std::string text(const node& n) { return " " + literal_text(n.type, n.attr.literal); }
  static void read(words& w, node& n) {
    n.attr.type = n.type;
    n.attr.dims = n.extents;
    n.attr.literal = w.literal(n.type);
    if (w.takes(" source=")) n.attr.ints = {w.integer()};
  }
  static void reference(const evaluation& e, literal_array& out) { fill(out, e.n.attr.literal); }
};

}  // namespace sinter::ir::ops
