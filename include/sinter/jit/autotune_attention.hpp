// jit/autotune_attention.hpp: mode::max_autotune: whether attention has kernels or is composed, by measurement.
#pragma once

#include <memory>
#include <string>

#include "../base/series.hpp"
#include "../ir/print.hpp"
#include "../rewrite/rewrite.hpp"
#include "backends/autotune.hpp"
#include "backends/table.hpp"

namespace sinter::engine::detail {

inline constexpr const char *as_kernels = "kernels", *as_composition = "composition";

/// A graph of a node of attention, with all results of a gradient.
inline ir::graph attention_alone(const ir::graph& g, ir::node_id id) {
  ir::graph one = plan::attention_choice::only(g, id);
  const ir::node made = one[one.outputs[0]];
  if (made.code != ir::op::attention_back) return one;
  one.outputs.clear();
  for (int result = 0; result < 3; ++result) {
    ir::attributes attr = made.attr;
    attr.ints[0] = result;
    one.outputs.push_back(one.push(made.code, series<ir::node_id>(made.in), std::move(attr), made.where));
  }
  return one;
}

/// A program of that graph, on operands for trials.
struct attention_trial {
  std::shared_ptr<code> made;
  std::unique_ptr<trial_arrays> inputs, results;
  series<void*> table;

  void run() const {
    const std::span<void* const> all(table.data(), table.size());
    if (made->where.is_cuda()) run::cuda::execute(made->fixed->launches, all, nullptr);
    else run::execute(made->fixed->kernels, all, nullptr);
  }
};

/// The candidate of this name; without a call if there is no room. Throws system_error if it cannot be compiled.
inline candidate attention_candidate(code& c, const backend& chosen, const options& how, const ir::graph& one,
                                     const std::string& name) {
  const auto t = std::make_shared<attention_trial>();
  t->made = begun(one, c.where, {}, nullptr, {});
  t->made->about.backend = chosen.name;
  const ir::kept_attention all = [](const ir::graph&, ir::node_id) { return true; };
  t->made->graph = rewrite::run_all(one, nullptr, name == as_kernels ? all : ir::kept_attention());
  series<trial_arrays::array> inputs, results;
  series<series<std::int64_t>> extents, strides;
  for (auto id : one.inputs) {
    const ir::node& x = one[id];
    inputs.push_back({x.type, *ir::product(x.extents).number()});
    extents.emplace_back();
    strides.emplace_back(x.extents.size(), 1);
    for (const auto& e : x.extents) extents.back().push_back(*e.number());
    for (std::size_t d = x.extents.size(); d-- > 1;) strides.back()[d - 1] = strides.back()[d] * extents.back()[d];
  }
  t->inputs.reset(new trial_arrays(inputs, c.where));
  if (!*t->inputs) return {name, {}};
  series<argument> arguments;
  for (std::size_t k = 0; k < inputs.size(); ++k)
    arguments.push_back({t->inputs->table[k], nullptr, inputs[k].type, static_cast<int>(extents[k].size()),
                         extents[k].data(), strides[k].data(), false});
  chosen.make(*t->made, t->made->graph, {arguments.data(), arguments.size()}, how);
  c.about.measured += t->made->about.measured;
  for (const auto& key : t->made->measured) c.measured.insert(key);
  for (const auto& r : t->made->results) results.push_back({r.type, *ir::product(r.extents).number()});
  t->results.reset(new trial_arrays(results, c.where));
  if (!*t->results) return {name, {}};
  t->table = t->inputs->table;
  for (void* at : t->results->table) t->table.push_back(at);
  return {name, [t] { t->run(); }};
}

/// Why a node of attention is composed; "" if it has kernels. Where the mode says so, and SINTER_ATTENTION nothing, both are measured.
inline std::string why_composed(code& c, const backend& chosen, const options& how, plan::attention_choice& choice,
                                const ir::graph& g, ir::node_id id) {
  std::string why = choice.why_not(g, id);
  const bool has_both = why.empty() || why == plan::attention_choice::slower;
  if (!measures(how) || !has_both || !attention_setting().empty()) return why;
  const ir::graph one = attention_alone(g, id);
  // Sizes, and numbers that a mask loads, decide how much work there is.
  for (auto input : one.inputs) {
    if (is_integer(one[input].type)) return why;
    for (const auto& e : one[input].extents)
      if (!e.is_number()) return why;
  }
  series<std::string> names{as_kernels, as_composition};
  if (!why.empty()) std::swap(names[0], names[1]);
  const std::string key = std::string(run::choice_key) + "sinter " SINTER_VERSION "\n" + machine_text(c.where) +
                          chosen.name + " " + names[0] + " first\n" + ir::print(one);
  const std::size_t at = choose(c, key, names, ir::name(g[id].code), -1, [&] {
    series<candidate> out;
    for (const auto& name : names) {
      try {
        if (candidate made = attention_candidate(c, chosen, how, one, name); made.run) out.push_back(std::move(made));
      } catch (const system_error& problem) {
        logs::to("perf", [&] { return name + " is not measured: " + problem.what(); });
      }
    }
    return out;
  });
  return names[at] == as_kernels ? "" : plan::attention_choice::slower;
}

/// The attention that has kernels in a program: by the sizes, or measured. `c` and `chosen` outlive it.
inline ir::kept_attention attention_kernels(code& c, const backend& chosen, const options& how) {
  if (!measures(how)) return attention_kernels(chosen, c.where, false);
  const auto choice = chosen.attention ? chosen.attention(c.where) : nullptr;
  if (!choice) return {};
  return [&c, &chosen, how, choice](const ir::graph& g, ir::node_id id) {
    return why_composed(c, chosen, how, *choice, g, id).empty();
  };
}

/// For explain(): the attention of a traced graph that has no kernels.
inline series<attention_report> composed_attention(const ir::graph& traced, const backend& chosen, device where,
                                                   const options& how) {
  const auto choice = measures(how) && chosen.attention ? chosen.attention(where) : nullptr;
  if (!choice) return composed_attention(traced, chosen, where);
  code scratch;
  scratch.where = where;
  const attention_refusal why = [&](const ir::graph& g, ir::node_id id) {
    return why_composed(scratch, chosen, how, *choice, g, id);
  };
  return attention_notes(why).of(traced);
}

}  // namespace sinter::engine::detail
