// jit/passes.hpp: options.passes: the user's rewrites of a traced graph, checked one by one.
#pragma once

#include <string>

#include "../base/log.hpp"
#include "../engine/engine.hpp"
#include "../engine/graph.hpp"
#include "../ir/print.hpp"

namespace sinter::engine::detail {

/// Names and versions, for keys of caches.
inline std::string passes_key(const options& how) {
  std::string key;
  for (const pass& p : how.passes)
    key += "pass " + std::to_string(p.name.size()) + ":" + p.name + " " + std::to_string(p.version.size()) + ":" +
           p.version + "\n";
  return key;
}

/// Whether programs may be kept: not with a pass that has no version.
inline bool passes_are_versioned(const options& how) {
  for (const pass& p : how.passes)
    if (p.version.empty()) return false;
  return true;
}

[[noreturn]] inline void fail_pass(const options& how, const pass& p, const std::string& what, location where) {
  fail(how.name, "the pass '" + p.name + "' " + what, where);
}

/// user_error unless `after` has the inputs and the results' types of `before`.
inline void check_interface(const ir::graph& before, const ir::graph& after, const options& how, const pass& p) {
  const auto typed = [](const ir::graph& g, ir::node_id id) {
    return std::string(dtype_name(g[id].type)) + ir::text_of(g[id].extents);
  };
  const auto compare = [&](const char* what, const series<ir::node_id>& a, const series<ir::node_id>& b) {
    if (a.size() != b.size())
      fail_pass(how, p,
                "returns a graph of " + std::to_string(b.size()) + " " + what + "s, it got " +
                    std::to_string(a.size()) + "; it must keep them",
                a.empty() ? location{} : before[a[0]].where);
    for (std::size_t k = 0; k < a.size(); ++k)
      if (typed(before, a[k]) != typed(after, b[k]))
        fail_pass(how, p,
                  "makes " + std::string(what) + " " + std::to_string(k) + " a " + typed(after, b[k]) + ", it was a " +
                      typed(before, a[k]) + "; it must keep dtype and shape",
                  before[a[k]].where);
  };
  compare("input", before.inputs, after.inputs);
  compare("result", before.outputs, after.outputs);
  if (before.effects.size() != after.effects.size())
    fail_pass(how, p, "adds or removes calls of the host; it must keep them", {});
}

/// The graph after the user's passes. user_error for a pass without a function, or that changes the graph's interface; its own
/// exceptions pass through.
inline ir::graph after_passes(const ir::graph& traced, const options& how) {
  ir::graph now = traced;
  for (const pass& p : how.passes) {
    if (!p.run) fail_pass(how, p, "has no function; give {name, version, [](graph g) { return g; }}", {});
    keep_loaded(p.run.code());
    const ir::graph next = p.run(graph(now)).body();
    check_interface(now, next, how, p);
    ir::check(next, p.name.c_str());
    now = next;
    logs::to("graph", [&] { return "after the pass " + logs::printable(p.name) + "\n" + ir::print(now); });
  }
  return now;
}

}  // namespace sinter::engine::detail
