// rewrite/rewrite.hpp: the passes, one line each, and their repetition to a fixpoint.
#pragma once

#include "../base/config.hpp"
#include "../base/log.hpp"
#include "../ir/compose_attention.hpp"
#include "dead_code.hpp"
#include "find_attention.hpp"
#include "fission.hpp"
#include "fold.hpp"
#include "joined.hpp"
#include "parts.hpp"
#include "simplify.hpp"

namespace sinter::engine::rewrite {

/// graph -> equal graph.
using ir::kept_attention;

struct pass {
  const char* name;
  ir::graph (*run)(const ir::graph&, const kept_attention&);
  bool (*changes)(const ir::graph&,
                  const kept_attention&);  ///< false if it would change only the numbers of nodes; null: always true
};

struct observer;
inline ir::graph run_all(const ir::graph& traced, observer* seen, const kept_attention& keeps = {});

inline ir::graph parts(const ir::graph& g, const kept_attention& keeps) {
  return rewrite_parts(g, [&](ir::graph part) { return run_all(part, nullptr, keeps); });
}
inline ir::graph attention(const ir::graph& g, const kept_attention& keeps) {
  return ir::compose_attention(g, false, keeps);
}
/// A pass that does not ask which attention stays.
template <auto Pass>
constexpr auto plain = [](const ir::graph& g, const kept_attention&) { return Pass(g); };
inline ir::graph inline_calls(const ir::graph& g) { return ir::inlined(g); }
inline ir::graph simplify_all(const ir::graph& g) { return simplify(g); }

inline constexpr pass passes[] = {
    {"inlined", plain<inline_calls>, plain<ir::has_calls>},
    {"find_attention", find_attention, has_powers},
    {"attention", attention, ir::has_attention},
    {"parts", parts, plain<has_parts>},
    {"fission", plain<fission>, plain<has_loops>},
    {"fold", plain<fold>, plain<has_folds>},
    {"simplify", plain<simplify_all>, nullptr},
    {"join_pads", plain<join_pads>, plain<has_sums_of_pads>},
    {"dead_code", plain<dead_code>, nullptr},
};

/// Receives the graph after each pass.
struct observer {
  virtual void after(const char* pass, const ir::graph& g) = 0;

 protected:
  ~observer() = default;
};

/// The graph after every pass, repeated until none changes it. Logs node counts on channel "rewrite"; checks the graph after
/// each pass in debug builds. `seen` receives every graph that differs from the previous one. Attention that `keeps` accepts stays.
inline ir::graph run_all(const ir::graph& traced, observer* seen, const kept_attention& keeps) {
  constexpr int max_rounds = 100;
  ir::graph g;
  for (int round = 0; round < max_rounds; ++round) {
    const ir::graph made = std::exchange(g, {});
    const ir::graph& before = round == 0 ? traced : made;
    const ir::graph* now = &before;
    for (const auto& p : passes) {
      if (p.changes && !p.changes(*now, keeps)) continue;
      ir::graph next = p.run(*now, keeps);
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
