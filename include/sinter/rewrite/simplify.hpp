// rewrite/simplify.hpp: applies the algebra table.
#pragma once

#include <array>

#include "../base/log.hpp"
#include "rebuild.hpp"
#include "rules.hpp"

namespace sinter::engine::rewrite {

inline constexpr std::size_t rule_count = sizeof(rules) / sizeof(rules[0]);

/// The number of times that each rule fired.
using firings = std::array<std::size_t, rule_count>;

/// The readers of a graph's nodes.
class readers {
 public:
  explicit readers(const ir::graph& g) : g_(g), count_(g.size(), 0), by_elements_(g.size(), 0) {
    for (auto id : g.outputs) count_[id] = 2, by_elements_[id] = 1;
    const auto live = g.live();
    for (std::size_t k = live.size(); k-- > 0;) {
      const node& n = g[live[k]];
      const bool elements = ir::is_view(n.code) ? by_elements_[live[k]] : n.code != op::dot;
      for (auto in : n.in) ++count_[in], by_elements_[in] = by_elements_[in] || elements;
    }
  }
  surroundings of(ir::node_id id) const {
    surroundings out;
    for (auto in : g_[id].in) out.made_by.push_back(g_[in].code), out.alone.push_back(is_read_once(in));
    out.by_elements = by_elements_[id];
    return out;
  }

 private:
  bool is_read_once(ir::node_id id) const {
    for (; count_[id] == 1 && g_[id].code == op::reshape;) id = g_[id].in[0];
    return count_[id] == 1;
  }

  const ir::graph& g_;
  series<std::uint32_t> count_;
  series<char> by_elements_;
};

/// The node after applying the table until no rule fits.
inline value simplified(value v, const surroundings& around, firings& fired) {
  for (bool changed = true; changed;) {
    changed = false;
    const op code = v.get().code;
    for (std::size_t i = 0; i < rule_count && !changed; ++i) {
      const rule& r = rules[i];
      if (r.code != code && !(r.code == any_pointwise && is_pointwise(code))) continue;
      const value replacement = r.apply(site{v, &around});
      if (!replacement) continue;
      ensure(replacement.type() == v.type() && replacement.extents() == v.extents(), r.name);
      v = value(v.owner(), replacement.id(), v.where());
      ++fired[i];
      changed = true;
    }
  }
  return v;
}

/// One walk over the graph; the next walk sees nodes that replacements introduce.
inline ir::graph simplify(const ir::graph& g, firings& fired) {
  const readers before(g);
  return rebuild(g, [&](const value& v, ir::node_id id) { return simplified(v, before.of(id), fired); });
}

/// Logs the rules that fired on channel "rewrite".
inline ir::graph simplify(const ir::graph& g) {
  firings fired{};
  ir::graph out = simplify(g, fired);
  logs::to("rewrite", [&] {
    std::string text = "rules:";
    for (std::size_t i = 0; i < rule_count; ++i)
      if (fired[i] != 0) text += std::string(" \"") + rules[i].name + "\" " + std::to_string(fired[i]);
    return text;
  });
  return out;
}

}  // namespace sinter::engine::rewrite
