// rewrite/rewrite.hpp: the passes, one line each, and their repetition to a fixpoint.
#pragma once

#include "../base/config.hpp"
#include "../base/log.hpp"
#include "dead_code.hpp"
#include "fission.hpp"
#include "fold.hpp"
#include "joined.hpp"
#include "parts.hpp"
#include "simplify.hpp"

namespace sinter::engine::rewrite {

/// graph -> equal graph.
struct pass {
  const char* name;
  ir::graph (*run)(const ir::graph&);
  bool (*changes)(const ir::graph&);  ///< false if it would change only the numbers of nodes; null: always true
};

inline ir::graph run_all(ir::graph g);
inline ir::graph parts(const ir::graph& g) { return rewrite_parts(g, run_all); }

inline ir::graph inlined(const ir::graph& g) { return ir::inlined(g); }

inline constexpr pass passes[] = {
    {"inlined", inlined, ir::has_calls}, {"parts", parts, has_parts},     {"fission", fission, has_loops},
    {"fold", fold, has_folds},           {"simplify", simplify, nullptr}, {"join_pads", join_pads, has_sums_of_pads},
    {"dead_code", dead_code, nullptr},
};

/// Receives the graph after each pass.
struct observer {
  virtual void after(const char* pass, const ir::graph& g) = 0;

 protected:
  ~observer() = default;
};

/// The graph after every pass, repeated until none changes it. Logs node counts on channel "rewrite"; checks the graph after
/// each pass in debug builds. `seen` receives every graph that differs from the previous one.
inline ir::graph run_all(const ir::graph& traced, observer* seen) {
  constexpr int most_rounds = 100;
  ir::graph g;
  for (int round = 0; round < most_rounds; ++round) {
    const ir::graph made = std::exchange(g, {});
    const ir::graph& before = round == 0 ? traced : made;
    const ir::graph* now = &before;
    for (const auto& p : passes) {
      if (p.changes && !p.changes(*now)) continue;
      ir::graph next = p.run(*now);
      if (SINTER_CHECK_PASSES) ir::check(next, p.name);
      logs::to("rewrite", [&] {
        return std::string(p.name) + ": " + std::to_string(now->live().size()) + " -> " +
               std::to_string(next.live().size()) + " nodes";
      });
      if (seen && ir::print(next) != ir::print(*now)) seen->after(p.name, next);
      g = std::move(next);
      now = &g;
    }
    if (ir::equal(g, before)) break;
  }
  return g;
}

inline ir::graph run_all(ir::graph g) { return run_all(g, nullptr); }

}  // namespace sinter::engine::rewrite
