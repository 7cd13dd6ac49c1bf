// ir/print.hpp: the text of a graph; deterministic, so that it serves as cache key and golden file.
#pragma once

#include <bit>
#include <limits>

#include "../base/series.hpp"
#include "../base/text.hpp"
#include "graph.hpp"

namespace sinter::ir {

namespace detail {

/// A literal that reads back as the same bits; a NaN with a payload prints its bits.
inline std::string literal_text(dtype t, scalar literal) {
  if (is_bool(t)) return literal.i != 0 ? "true" : "false";
  if (is_unsigned(t)) return std::to_string(static_cast<std::uint64_t>(literal.i));
  if (!is_float(t)) return std::to_string(literal.i);
  const auto bits = std::bit_cast<std::uint64_t>(literal.f);
  if (literal.f != literal.f && bits != std::bit_cast<std::uint64_t>(std::numeric_limits<double>::quiet_NaN()))
    return "nan:" + text::hex(bits);
  return text::number(literal.f);
}

inline std::string ints_text(const series<std::int64_t>& ints) {
  return "[" + text::join(ints, ", ", [](std::int64_t x) { return std::to_string(x); }) + "]";
}

/// " axis=1" and the like: every attribute that the result's type does not show.
inline std::string attributes_text(const node& n) {
  const auto& a = n.attr;
  const auto half = [&](bool second) {
    const auto rank = a.dims.size() / 2;
    return text_of(std::span(a.dims).subspan(second ? rank : 0, rank));
  };
  switch (n.code) {
    case op::input:
      return " " + std::to_string(a.ints.at(0));
    case op::constant:
      return " " + literal_text(n.type, a.literal);
    case op::iota:
    case op::concat:
    case op::gather:
    case op::scatter_add:
      return " axis=" + std::to_string(a.ints.at(0));
    case op::permute:
      return " " + ints_text(a.ints);
    case op::slice:
      return " start=" + half(true) + " step=" + ints_text(a.ints);
    case op::pad:
      return " low=" + half(false) + " high=" + half(true) + " value=" + literal_text(n.type, a.literal);
    case op::reduce:
      return std::string(" ") + name(a.combiner) + " axes=" + ints_text(a.ints);
    case op::arg_reduce:
      return std::string(" ") + name(a.combiner) + " axis=" + std::to_string(a.ints.at(0));
    case op::scan:
      return std::string(" ") + name(a.combiner) + " axis=" + std::to_string(a.ints.at(0)) +
             (a.ints.at(1) ? " reverse" : "");
    case op::opaque:
      return " " + a.step->head;
    case op::pick:
      return " " + std::to_string(a.ints.at(0));
    case op::size:
      return " " + a.dims.at(0).text();
    case op::dot:
      return " batch=" + std::to_string(a.ints.at(0)) + " inner=" + std::to_string(a.ints.at(1));
    default:
      return a.ints.empty() ? "" : " mark=" + std::to_string(a.ints[0]);
  }
}

template <class Number>
std::string node_text(const graph& g, node_id id, Number&& number) {
  const node& n = g[id];
  std::string out = "%" + std::to_string(number(id)) + " = " + dtype_name(n.type) + text_of(n.extents) + " " +
                    name(n.code) + attributes_text(n);
  for (auto operand : n.in) out += " %" + std::to_string(number(operand));
  return out;
}

}  // namespace detail

SINTER_API std::string print(const graph& g, node_id id) {
  return detail::node_text(g, id, [](node_id i) { return i; });
}

SINTER_API std::string print(const graph& g) {
  const auto live = g.live();
  series<node_id> dense(g.size(), no_node);
  for (std::size_t i = 0; i < live.size(); ++i) dense[live[i]] = static_cast<node_id>(i);
  const auto number = [&](node_id id) { return dense[id]; };
  std::string out;
  for (auto id : live) {
    out += detail::node_text(g, id, number);
    if (const auto& step = g[id].attr.step) out += step->text.substr(step->head.size());
    out += "\n";
  }
  out += "return";
  for (auto id : g.outputs) out += " %" + std::to_string(dense[id]);
  if (!g.effects.empty()) out += " after";
  for (auto id : g.effects) out += " %" + std::to_string(dense[id]);
  return out + "\n";
}

}  // namespace sinter::ir
