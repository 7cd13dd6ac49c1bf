// ir/print.hpp: the text of a graph; deterministic, so that it serves as cache key and golden file.
#pragma once

#include "../base/series.hpp"
#include "../base/text.hpp"
#include "graph.hpp"
#include "ops/table.hpp"

namespace sinter::ir {

namespace detail {

template <class Number>
std::string node_text(const graph& g, node_id id, Number&& number) {
  const node& n = g[id];
  std::string out =
      "%" + std::to_string(number(id)) + " = " + dtype_name(n.type) + text_of(n.extents) + " " + name(n.code);
  if (!is_pointwise(n.code)) out += ops::record_of(n.code).text(n);
  else if (!n.attr.ints.empty()) out += " mark=" + std::to_string(n.attr.ints[0]);
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
