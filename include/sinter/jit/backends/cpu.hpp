// jit/backends/cpu.hpp: graph -> kernels for the host, loaded and bound to operands.
#pragma once

#include "../../base/callback.hpp"
#include "../../base/series.hpp"
#include "../../emit/cpu/kernel.hpp"
#include "../../ir/compose_attention.hpp"
#include "../../plan/attention.hpp"
#include "../../plan/fusion/parts.hpp"
#include "../../plan/schedule/print.hpp"
#include "../../run/build/build.hpp"
#include "attention_notes.hpp"
#include "autotune_cpu.hpp"
#include "code.hpp"
#include "cpu_parts.hpp"
#include "loops.hpp"

namespace sinter::engine::detail {

/// A graph planned for the host, before its kernels are compiled.
struct cpu_plan {
  ir::graph graph;
  series<result_spec> results;
  plan::fused fused;
  plan::shared_parts shared;
  series<emit::source> sources;    ///< for each kernel; empty for an opaque step
  std::size_t first_step = 0;      ///< in the report
  series<std::string> ops;         ///< of each step, for trace.json
  std::size_t first_text = 0;      ///< among all compiled texts
  series<series<cpu_plan>> parts;  ///< for each kernel; only for an opaque step
};

inline cpu_plan plan_cpu(code& c, const ir::graph& g, const series<char>& copied, const memory_rule& memory,
                         const std::string& within, bool reasons) {
  cpu_plan p;
  p.graph = with_dense_operands(g, copied);
  p.results = separate_results(p.graph);
  p.fused = plan::fuse(p.graph, memory(p.graph, p.results), {}, reasons);
  p.shared = plan::parts_of(p.fused.kernels, p.fused.alike);
  p.first_step = c.about.steps.size();
  series<std::size_t> number = p.shared.step;
  for (auto& n : number) n += p.first_step;
  report_kernels(c, p.graph, p.fused.kernels, number, p.fused.apart, hints_of(c.layout));
  p.ops = told_ops(c, p.first_step);
  for (std::size_t i = p.first_step; i < c.about.steps.size(); ++i) {
    c.about.steps[i].name = within + c.about.steps[i].name;
    c.about.steps[i].first = p.first_step;
  }
  report_planning(c, p.fused);
  for (const auto& k : p.fused.kernels) {
    p.parts.emplace_back();
    if (!k.is_opaque()) continue;
    const ir::opaque& step = *p.graph[k.opaque].attr.step;
    for (std::size_t part = 0; part < step.parts.size(); ++part) {
      const part_layout given = layout_of_part(p.graph, k, part, false);
      p.parts.back().push_back(plan_cpu(
          c, step.parts[part], series<char>(step.parts[part].inputs.size(), 0),
          [&](const ir::graph& body, const series<result_spec>& results) {
            return memory_of_part(body, results, given, hints_of(c.layout));
          },
          within + ir::name(step) + ": ", reasons));
    }
    if (step.carried == 0) continue;
    const cpu_plan& body = p.parts.back().back();
    report_in_place(c, step, body.graph, body.results, body.fused.kernels, body.shared.step, body.first_step);
  }
  return p;
}

/// Sets the buffers of a kernel, which is part of a step, and its numbers if it has some.
inline void add_operands(run::step& s, const cpu_plan& p, std::size_t k, const binding& where,
                         std::span<const std::int64_t> sizes) {
  for (const auto& b : p.fused.kernels[k].buffers)
    s.operands.push_back(where.operand.at(static_cast<std::size_t>(b.id)));
  if (p.shared.code[k] < 0) return;
  s.numbers.insert(s.numbers.end(), sizes.begin(), sizes.end());
  p.shared.append_numbers(k, sizes, s.numbers);
}

/// The steps of a plan, from the modules of all plans; without modules they have no code yet.
inline run::sequence assemble_cpu(const cpu_plan& p, std::span<const run::built> modules,
                                  std::span<const std::int64_t> sizes) {
  const binding where = bind_operands(p.results, p.graph, p.fused.kernels, p.fused.strides, p.shared.step, sizes);
  run::sequence out;
  std::int64_t most = 0;
  std::size_t next = p.first_text;
  for (std::size_t k = 0; k < p.fused.kernels.size(); ++k) {
    const plan::kernel& kernel = p.fused.kernels[k];
    if (!p.shared.begins_step(k)) {
      ++out.steps.back().members;
      add_operands(out.steps.back(), p, k, where, sizes);
      continue;
    }
    run::step s;
    s.scratch = where.scratch_bytes;
    s.label = kernel.label;
    s.ops = p.ops[p.shared.step[k]];
    if (kernel.is_opaque()) {
      series<run::sequence> parts;
      for (const auto& part : p.parts[k]) parts.push_back(assemble_cpu(part, modules, sizes));
      const ir::opaque& step = *p.graph[kernel.opaque].attr.step;
      series<char> in_place;
      if (step.carried > 0) {
        const cpu_plan& body = p.parts[k].back();
        in_place = carried_in_place(body.graph, body.results, step.kind == ir::opaque_kind::loop ? 1 : 0, step.carried,
                                    body.fused.kernels, body.shared.step);
      }
      s.call = host_routine(p.graph, p.graph[kernel.opaque], std::move(parts), sizes, std::move(in_place));
      for (int place : kernel.places)
        s.operands.push_back(
            place < 0 ? -1
                      : where.operand.at(static_cast<std::size_t>(kernel.buffers[static_cast<std::size_t>(place)].id)));
      most = std::max(most, s.call->scratch_bytes());
    } else {
      if (!modules.empty()) {
        s.code = modules[next].code;
        s.entry = modules[next++].entry();
      }
      add_operands(s, p, k, where, sizes);
      const std::span<const std::int64_t> own =
          s.numbers.empty() ? sizes : std::span(s.numbers.data(), s.numbers.size());
      most = std::max(most, set_memory(s, p.sources[k].scratch, own));
    }
    out.steps.push_back(std::move(s));
  }
  out.intermediates = where.intermediates;
  out.scratch_bytes = where.scratch_bytes + most;
  return out;
}

/// Where the mode says so, measures the ways to compute each larger kernel, and takes the fastest.
inline void autotune(code& c, cpu_plan& p, const options& how) {
  if (!measures(how)) return;
  const double operation = plan::target().bytes_per_operation;
  const std::size_t steps = p.shared.step.empty() ? 0 : p.shared.step.back() + 1;
  const double least = least_work(c, p.first_step, steps, operation);
  for (std::size_t k = 0; k < p.fused.kernels.size(); ++k) {
    plan::kernel& one = p.fused.kernels[k];
    const std::size_t step = p.first_step + p.shared.step[k];
    const kernel_report& told = c.about.steps[step];
    if (const std::size_t same = p.shared.first[k]; same < k) {
      one.option = p.fused.kernels[same].option;
      c.about.steps[step].chosen = c.about.steps[p.first_step + p.shared.step[same]].chosen;
      continue;
    }
    if (p.shared.code[k] >= 0 || one.is_opaque() || work_of(told, operation) < least) continue;
    const series<way> ways = ways_on_host(one);
    if (ways.size() < 2) continue;
    one.option = ways[choose(c, choice_key_of(one, ways, "", c.where), names_of(ways), told.name,
                             static_cast<std::int64_t>(step), [&] { return candidates_on_host(one, ways); })]
                     .option;
  }
}

/// Adds the texts of a plan's kernels, one for each step.
inline void print_cpu(code& c, cpu_plan& one) {
  one.first_text = c.texts.of.size();
  series<std::size_t> text_of;  // for each kernel
  for (std::size_t k = 0; k < one.fused.kernels.size(); ++k) {
    one.sources.emplace_back();
    text_of.push_back(c.texts.of.size());
    if (one.fused.kernels[k].is_opaque()) continue;
    const std::size_t step = one.first_step + one.shared.step[k];
    if (const std::size_t first = one.shared.first[k]; first < k) {
      one.sources.back().scratch = one.sources[first].scratch;
      if (!one.shared.begins_step(k)) continue;
      logs::to("output_code", [&] { return c.texts.distinct[c.texts.of[text_of[first]]].str(); });
      c.texts.add_again(text_of[first], step);
      continue;
    }
    const plan::kernel& printed = one.shared.printed(one.fused.kernels, k);
    if (logs::enabled("schedule") || logs::enabled("loops")) log_loops(printed, host_facts(), plan::text_of(printed));
    one.sources.back() = source_on_host(printed);
    logs::to("output_code", [&] { return one.sources.back().text; });
    c.texts.add(one.sources.back().text, step);
    one.sources.back().text = {};
  }
}

/// Which attention has kernels on the host; null: all is composed.
inline std::shared_ptr<plan::attention_choice> attention_on_host(device) {
  const std::string_view how = attention_setting();
  if (how == "composed") return {};
  return make_on_heap<plan::attention_choice>(host_recipe_facts(),
                                              how == "kernels" ? plan::no_limits : plan::attention_limits{});
}

inline void generate_cpu(code& c, const ir::graph& g, std::span<const argument> arguments, const options& how) {
  series<char> copied;
  for (const auto& a : arguments) copied.push_back(!is_row_major(a));
  const auto layout = make_on_heap<plan::memory_map>();
  cpu_plan p = plan_cpu(
      c, g, copied,
      [&](const ir::graph& separate, const series<result_spec>&) {
        return *layout = layout_of(separate, arguments, c.layout);
      },
      "", wants_reasons(c));
  c.reasons = [copied, layout](const code& made) {
    code again;
    again.layout = made.layout;
    cpu_plan planned = plan_cpu(
        again, made.graph, copied, [&](const ir::graph&, const series<result_spec>&) { return *layout; }, "", true);
    for_each_plan(planned, [&](const cpu_plan& one) {
      for (std::size_t k = 0; k < one.fused.kernels.size(); ++k) {
        const std::size_t step = one.first_step + one.shared.step[k];
        again.about.steps[step].loops += text_of_loops(one.fused.kernels[k], chosen_in(made, step), host_facts());
      }
    });
    return again.about;
  };
  c.results = p.results;
  c.stage("plan");
  for_each_plan(p, [&](cpu_plan& one) { autotune(c, one, how); });
  for_each_plan(p, [&](cpu_plan& one) { print_cpu(c, one); });
  c.about.kernels = c.texts.of.size();
  for (std::size_t k = 0; c.inside && k < p.fused.kernels.size(); ++k)
    if (p.shared.begins_step(k)) c.inside->kernel.push_back(p.shared.step[k]);
  const binding where =
      bind_operands(p.results, p.graph, p.fused.kernels, p.fused.strides, p.shared.step, hints_of(c.layout));
  if (c.inside || c.page) picture_plan(c, p.graph, p.fused.kernels, p.shared.step, where);
  find_replaceable(c, p.graph, p.fused.kernels, p.shared.step, arguments);
  report_peak(c, p.graph, where);
  if (c.planned && !c.layout.any_open()) {
    sized steps;
    steps.kernels = assemble_cpu(p, {}, {});
    c.planned(c, steps);
  }
  c.stage("emit");
  const auto modules = c.texts.in_order(run::build(c.texts.distinct));
  report_modules<run::built>(c, modules);
  c.stage("compile");
  struct assembly {
    cpu_plan plan;
    series<run::built> modules;
  };
  c.plan = make_on_heap<assembly>(assembly{std::move(p), {modules.begin(), modules.end()}});
  c.fill = [](void* from, sized& to) {
    const auto& a = *static_cast<const assembly*>(from);
    to.kernels = assemble_cpu(a.plan, {a.modules.data(), a.modules.size()}, {to.sizes.data(), to.sizes.size()});
  };
  finalize(c);
  c.stage("bind");
}

}  // namespace sinter::engine::detail
