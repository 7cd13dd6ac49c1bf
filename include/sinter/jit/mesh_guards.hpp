// jit/mesh_guards.hpp: what ranks compare of a program with collectives, and when.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "../ir/ops/collectives.hpp"
#include "../ir/ops/table.hpp"
#include "../run/mesh/sha256.hpp"
#include "../run/ranks.hpp"

namespace sinter::engine::detail {

/// Whether ranks compare each collective before they run it, and inputs that are meant to be equal.
inline bool checks_mesh() {
  const char* const text = std::getenv("SINTER_MESH_CHECK");
  return text && std::string_view(text) == "1";
}

/// Adds the collectives of a graph in their order; `first` receives the line of the first one.
inline void add_collectives(const ir::graph& g, std::string& all, location& first) {
  for (auto id : g.live()) {
    const ir::node& n = g[id];
    if (n.code == ir::op::opaque)
      for (const auto& part : n.attr.step->parts) add_collectives(part, all, first);
    if (!ir::is_collective(n.code) || n.code == ir::op::as || n.code == ir::op::axis_index) continue;
    if (all.empty()) first = n.where;
    all += ir::name(n.code) + ir::ops::record_of(n.code).text(n) + " " + dtype_name(n.type);
    for (const ir::dim& d : n.extents) all += " " + d.text();
    all += "\n";
  }
}
/// What other ranks compare with their program. Empty if it has no collectives. `rings`: those that are cut into pieces.
inline std::shared_ptr<const run::program_guards> guards_of(const ir::graph& traced, const std::string& name,
                                                            const std::string& rings, location& first) {
  auto out = std::make_shared<run::program_guards>();
  std::string all;
  add_collectives(ir::inlined(traced), all, first);
  if (all.empty()) return nullptr;
  out->digest = run::sha256_of(all + rings);
  std::string arguments;
  for (auto id : traced.inputs) {
    arguments += arguments.empty() ? "" : ", ";
    arguments += dtype_name(traced[id].type) + ir::text_of(traced[id].extents);
  }
  out->text =
      sinter::detail::located(name + "(" + arguments + "), whose first collective is " + all.substr(0, all.find('\n')) +
                                  (rings.empty() ? "" : ", and whose products are cut into pieces"),
                              first);
  return out;
}

/// The same if ranks compare programs.
inline std::shared_ptr<const run::program_guards> compared_guards(const ir::graph& traced, const std::string& name,
                                                                  const std::string& rings) {
  location first;
  return run::world().compares_programs() ? guards_of(traced, name, rings, first) : nullptr;
}

/// Before a program is compiled that this rank lacks: all ranks have, or want, one with the same collectives. False if it has none,
/// or ranks do not compare; `first` receives the line of the first one.
SINTER_API bool agree_on_program(const ir::graph& traced, const std::string& name, const std::string& rings,
                                 location& first) {
  if (!run::world().compares_programs()) return false;
  const auto guards = guards_of(traced, name, rings, first);
  if (guards) run::world().agree(guards, first);
  return guards != nullptr;
}

/// Other ranks are told that this one compiles, meanwhile.
struct compilation_scope {
  compilation_scope(bool exchanges, location first) { run::world().enter_compilation(true, exchanges, first); }
  ~compilation_scope() { run::world().enter_compilation(false, false, {}); }
  compilation_scope(const compilation_scope&) = delete;
  compilation_scope& operator=(const compilation_scope&) = delete;
};

}  // namespace sinter::engine::detail
