// rewrite/simplify.hpp: applies the algebra table.
#pragma once

#include <array>

#include "../base/log.hpp"
#include "rebuild.hpp"
#include "rules.hpp"

namespace sinter::engine::rewrite {

inline constexpr std::size_t rule_count = sizeof(rules) / sizeof(rules[0]);

/// How often each rule fired.
using firings = std::array<std::size_t, rule_count>;

/// The node with the table applied until no rule fits.
inline value simplified(value v, firings& fired) {
  for (bool changed = true; changed;) {
    changed = false;
    const op code = v.get().code;
    for (std::size_t i = 0; i < rule_count && !changed; ++i) {
      const rule& r = rules[i];
      if (r.code != code && !(r.code == any_pointwise && is_pointwise(code))) continue;
      const value replacement = r.apply(site{v});
      if (!replacement) continue;
      ensure(replacement.type() == v.type() && replacement.extents() == v.extents(), r.name);
      v = value(v.owner(), replacement.id(), v.where());
      ++fired[i];
      changed = true;
    }
  }
  return v;
}

/// One walk over the graph; nodes that a replacement introduces are seen by the next walk.
inline ir::graph simplify(const ir::graph& g, firings& fired) {
  return rebuild(g, [&](const value& v) { return simplified(v, fired); });
}

/// Logs on channel "rewrite" which rules fired.
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
