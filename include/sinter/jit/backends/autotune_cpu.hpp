// jit/backends/autotune_cpu.hpp: the ways to compute a kernel on the host: the options of a recipe, and for products gemm.
#pragma once

#include <optional>
#include <string>

#include "../../base/series.hpp"
#include "../../emit/cpu/kernel.hpp"
#include "../../run/build/build.hpp"
#include "autotune.hpp"
#include "loops.hpp"

namespace sinter::engine::detail {

/// The source of a kernel on this host. Recipes print only kernels with an option, and kernels that have no other text.
inline emit::source source_on_host(const plan::kernel& k) {
  return k.by_recipe || k.option >= 0 ? emit::cpu(k, host_recipe_facts()) : emit::cpu(k);
}

/// What a step of this source needs of memory and threads; returns the bytes of scratch memory.
inline std::int64_t set_memory(run::step& s, const emit::scratch_use& memory, std::span<const std::int64_t> sizes) {
  s.parallel = memory.parallel;
  s.threads = static_cast<long>(memory.threads(sizes, run::max_threads()));
  s.of_thread = static_cast<long>(memory.of_thread(sizes));
  return memory.bytes(sizes, run::max_threads());
}

/// The ways to compute a kernel, as rules would first; none if it has no choice.
inline series<way> ways_on_host(const plan::kernel& k) {
  series<way> out;
  if (!is_closed(k)) return out;
  const auto facts = host_recipe_facts();
  const auto* r = k.by_recipe ? plan::schedules::recipe_for(k, facts) : nullptr;
  if (!k.by_recipe && emit::detail::has_tree(k, facts)) {
    out.push_back({without_recipe, plan::kernel::no_recipe});
    r = &plan::schedules::cpu_product;
  }
  for (int o = 0; r && o < r->options; ++o) out.push_back(way_of_option(o));
  return out;
}

/// The module of each text; none for those that cannot be compiled.
inline series<std::optional<run::built>> modules_on_host(const series<run::shared_text>& texts) {
  try {
    run::build(texts);  // at one time; then they are found
  } catch (const system_error&) {}
  series<std::optional<run::built>> out;
  for (const auto& text : texts) {
    out.emplace_back();
    try {
      out.back() = run::build(series<run::shared_text>{text})[0];
    } catch (const system_error&) {}
  }
  return out;
}

/// The ways as programs of their own, those with equal texts once. None if there is no room for operands.
inline series<candidate> candidates_on_host(const plan::kernel& k, const series<way>& ways) {
  std::shared_ptr<trial_arrays> arrays;
  try {
    arrays = arrays_for(k, device::cpu());
  } catch (const system_error&) {
    return {};
  }
  series<run::shared_text> texts;
  series<std::string> names;
  series<emit::scratch_use> needs;
  for (const way& w : ways) {
    plan::kernel one = k;
    one.option = w.option;
    const emit::source s = source_on_host(one);
    const auto is_equal = [&](const run::shared_text& x) { return x == s.text; };
    if (std::any_of(texts.begin(), texts.end(), is_equal)) continue;
    texts.push_back(run::shared_text(s.text));
    names.push_back(w.name);
    needs.push_back(s.scratch);
  }
  const auto modules = modules_on_host(texts);
  series<candidate> out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!modules[i]) continue;
    const auto steps = std::make_shared<run::sequence>();
    steps->steps.emplace_back();
    run::step& s = steps->steps[0];
    s.code = modules[i]->code;
    s.entry = modules[i]->entry();
    for (int b = 0; b < static_cast<int>(k.buffers.size()); ++b) s.operands.push_back(b);
    steps->scratch_bytes = set_memory(s, needs[i], {});
    out.push_back({names[i], [steps, arrays] {
                     run::execute(*steps, {arrays->table.data(), arrays->table.size()}, nullptr);
                   }});
  }
  return out;
}

}  // namespace sinter::engine::detail
