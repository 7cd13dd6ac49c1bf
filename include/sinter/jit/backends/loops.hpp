// jit/backends/loops.hpp: what recipes know of a target, and the loops that they make, for logs and explain().
#pragma once

#include <cstdlib>
#include <string_view>

#include "../../base/log.hpp"
#include "../../plan/kernel/target.hpp"
#include "../../plan/loops/outline.hpp"
#include "../../run/host/program.hpp"

namespace sinter::engine {

/// Whether the processor has the instructions that a recipe asks for.
inline bool host_has([[maybe_unused]] std::string_view what) {
#if defined(__x86_64__)
  if (what == "avx2") return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (what == "avx512f") return __builtin_cpu_supports("avx512f") != 0;
#endif
  return false;
}
/// Processors are counted as few or many: machines of a kind share texts.
inline plan::schedules::facts host_facts() { return {.processors = run::max_threads() > 4 ? 16 : 2, .has = host_has}; }

/// What recipes that print a kernel alone know of the host. Their loops are C++: a processor without AVX2 runs them, too.
inline bool host_has_rows(std::string_view what) { return what == "avx2" || (what == "avx512f" && host_has(what)); }
inline plan::schedules::facts host_recipe_facts() {
  return {.processors = run::max_threads() > 4 ? 16 : 2, .has = host_has_rows};
}

/// SINTER_ATTENTION=kernels: attention has kernels wherever a recipe takes it; SINTER_ATTENTION=composed: nowhere. Otherwise its sizes
/// decide.
inline std::string_view attention_setting() {
  const char* const set = std::getenv("SINTER_ATTENTION");
  return set ? set : "";
}

using plan::schedules::device_facts;

/// Prints a kernel's steps to the channel `schedule`, behind `roles`, and its tree to the channel `loops`.
inline void log_loops(const plan::kernel& k, const plan::schedules::facts& f, const std::string& roles) {
  const bool tells_schedule = logs::enabled("schedule"), tells_tree = logs::enabled("loops");
  if (!tells_schedule && !tells_tree) return;
  const auto loops = plan::loops::outline_of(k, f);
  if (tells_schedule) logs::write("schedule", roles + loops.schedule);
  if (tells_tree && !loops.tree.empty()) logs::write("loops", k.label + "\n" + loops.tree);
}

/// Both texts, for a report; of an option of the recipe.
inline std::string text_of_loops(plan::kernel k, int option, const plan::schedules::facts& f) {
  k.option = option;
  const auto loops = plan::loops::outline_of(k, f);
  return loops.schedule + loops.tree;
}

}  // namespace sinter::engine
