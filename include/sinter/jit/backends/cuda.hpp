// jit/backends/cuda.hpp: graph -> launches on a GPU, compiled by NVRTC and bound to operands.
#pragma once

#include <optional>

#include "../../base/series.hpp"
#include "../../emit/cuda/choose.hpp"
#include "../../emit/cuda/kernel.hpp"
#include "../../engine/backends.hpp"
#include "../../plan/attention.hpp"
#include "../../plan/fusion/for_libraries.hpp"
#include "../../plan/fusion/gaps.hpp"
#include "../../plan/fusion/parts.hpp"
#include "../../plan/kernel/sized.hpp"
#include "../../plan/lowering/library_call.hpp"
#include "../../plan/schedule/print.hpp"
#include "../../run/cuda/program/blas.hpp"
#include "../../run/cuda/program/nvrtc.hpp"
#include "../../run/cuda/program/program.hpp"
#include "../../run/ranks.hpp"
#include "autotune_cuda.hpp"
#include "code.hpp"
#include "cuda_assembly.hpp"
#include "cuda_parts.hpp"
#include "loops.hpp"

namespace sinter::engine::detail {

/// The assumptions of kernels about the arguments' memory.
inline plan::memory_map device_layout_of(const ir::graph& g, std::span<const argument> arguments,
                                         const size_layout& l) {
  plan::memory_map m = layout_of(g, arguments, l);
  m.alignment.resize(g.size());
  m.by_value.resize(g.size());
  for (std::size_t i = 0; i < g.inputs.size(); ++i) {
    const argument& a = arguments[i];
    const bool aligned = reinterpret_cast<std::uintptr_t>(a.data) % 16 == 0;
    m.alignment[g.inputs[i]] = aligned ? 16 : static_cast<std::int64_t>(size_of(a.type));
    m.by_value[g.inputs[i]] = a.by_value;
  }
  return m;
}

/// A library's call for a single kernel, if there is a library, it supports the call, and no kernel of sinter is faster.
inline std::optional<plan::library_call> library_call(std::span<const plan::kernel> group, plan::size_fit fit,
                                                      std::span<const std::int64_t> sizes, const plan::target& target,
                                                      const options& how) {
  const plan::kernel& k = group[0];
  if (group.size() > 1 || fit.narrow) return {};
  auto call = plan::as_library_call(plan::with_sizes(k, sizes), target, true);
  std::string why;
  const auto* const product = call ? std::get_if<plan::blas_call>(&*call) : nullptr;
  if (product && !run::cuda::can_multiply(to_matmul(*product, how), target.device, why)) {
    logs::to("fusion", [&] { return k.label + ": no library call: " + why; });
    call.reset();
  }
  return call;
}

/// A graph planned for a GPU, before its kernels are compiled.
struct cuda_plan {
  plan::target target;
  ir::graph graph;
  series<result_spec> results;
  series<plan::kernel> kernels;  ///< in the order of the groups
  plan::shared_parts shared;     ///< for kernels with their own launch and text
  series<cuda_group> groups;
  series<series<ir::dim>> strides;  ///< for each node, as in plan::fused
  series<std::size_t> when;         ///< for each kernel, its group
  std::size_t first_step = 0;       ///< in the report
  series<std::string> ops;          ///< of each group, for trace.json
  series<series<cuda_plan>> parts;  ///< for each group; only for an opaque step
};

/// Kernels in launches that run one after another; kernels of a launch run at once (plan::horizontal). Exceptions are a
/// narrow product and its only reader: a block continues with the rows that it has made.
inline series<series<std::size_t>> launches_of(const series<plan::kernel>& kernels, std::span<const std::int64_t> hints,
                                               const plan::target& target) {
  series<series<std::size_t>> out = plan::horizontal(kernels, target.parameter_bytes);
  const auto users = plan::users_of(kernels);
  series<std::size_t> at(kernels.size());  // index of the launch
  for (std::size_t n = 0; n < out.size(); ++n)
    for (const std::size_t k : out[n]) at[k] = n;
  const auto is_alone = [&](std::size_t k) { return out[at[k]].size() == 1; };
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    plan::kernel product = kernels[k];
    if (!product.is_product() || product.stores.size() != 1 || !fit_for({&product, 1}, hints, target).narrow) continue;
    const int made = product.buffers[static_cast<std::size_t>(product.stores[0].at.buffer)].id;
    series<std::size_t> readers;
    for (const std::size_t r : users[static_cast<std::size_t>(made)])
      if (r != k) readers.push_back(r);
    if (readers.size() != 1 || !is_alone(k) || !is_alone(readers[0])) continue;
    plan::kernel then = kernels[readers[0]];
    product.fit = fit_for({&product, 1}, hints, target);
    then.fit = fit_for({&then, 1}, hints, target);
    if (!plan::follow_of(product, then, target)) continue;
    out[at[readers[0]]] = {k, readers[0]};
    out[at[k]].clear();
    at[k] = at[readers[0]];
  }
  erase_if(out, [](const auto& launch) { return launch.empty(); });
  return out;
}

inline void report_in_place(code& c, const ir::opaque& step, const series<cuda_plan>& parts) {
  if (step.carried == 0) return;
  const cuda_plan& b = parts.back();
  report_in_place(c, step, b.graph, b.results, b.kernels, b.when, b.first_step);
}

/// Fuses a graph as libraries want it.
inline plan::fused fuse_in_slices(cuda_plan& p, ir::graph g, const memory_rule& memory,
                                  std::span<const std::int64_t> hints, bool reasons) {
  p.graph = std::move(g);
  bool again = false;
  return plan::fuse_for_libraries(p.graph, hints, p.target, [&](const plan::own_strides& own) {
    auto results = separate_results(p.graph);
    // After the first time outputs are already the nodes behind reshapes; the results keep their first extents.
    if (std::exchange(again, true))
      for (std::size_t k = 0; k < results.size(); ++k) results[k].extents = std::move(p.results[k].extents);
    p.results = std::move(results);
    plan::memory_map m = memory(p.graph, p.results);
    for (const auto& [id, strides] : own) m.strides[id] = strides;
    return plan::fuse_with_libraries(p.graph, std::move(m), p.target, reasons);
  });
}

inline cuda_plan plan_cuda(code& c, const ir::graph& g, const series<char>& copied, const memory_rule& memory,
                           const plan::target& target, const std::string& within, bool reasons) {
  cuda_plan p;
  p.target = target;
  const auto hints = hints_of(c.layout);
  plan::fused fused = fuse_in_slices(p, with_last_updates(with_dense_operands(g, copied)), memory, hints, reasons);
  p.first_step = c.about.steps.size();
  series<std::size_t> number(fused.kernels.size()), reported;
  for (const auto& together : launches_of(fused.kernels, hints, target)) {
    cuda_group group;
    group.first = p.kernels.size();
    group.count = together.size();
    for (auto k : together) {
      number[k] = p.groups.size();
      p.kernels.push_back(std::move(fused.kernels[k]));
      p.when.push_back(p.groups.size());
      reported.push_back(p.first_step + p.groups.size());
    }
    p.groups.push_back(std::move(group));
  }
  report_kernels(c, p.graph, p.kernels, reported, {}, hints);
  p.ops = told_ops(c, p.first_step);
  for (std::size_t k = 0; k < p.groups.size(); ++k) {
    std::string& name = c.about.steps[p.first_step + k].name;
    name = within + name;
    c.about.steps[p.first_step + k].first = p.first_step;
  }
  for (const auto& a : fused.apart)
    // Kernels are numbered by launch.
    if (number[a.first] != number[a.second])
      c.about.apart.push_back(
          {p.first_step + number[a.first], p.first_step + number[a.second], plan::in_words(p.graph, a.why)});
  report_planning(c, fused);
  p.strides = std::move(fused.strides);
  for (const auto& group : p.groups) {
    p.parts.emplace_back();
    const plan::kernel& k = p.kernels[group.first];
    if (!k.is_opaque()) continue;
    const ir::opaque& step = *p.graph[k.opaque].attr.step;
    for (std::size_t part = 0; part < step.parts.size(); ++part) {
      const part_layout given = layout_of_part(p.graph, k, part, true);
      series<char> by_value(step.parts[part].inputs.size(), 0);
      if (given.by_value >= 0) by_value[static_cast<std::size_t>(given.by_value)] = 1;
      p.parts.back().push_back(plan_cuda(
          c, step.parts[part], by_value,
          [&](const ir::graph& body, const series<result_spec>& results) {
            return memory_of_part(body, results, given, hints);
          },
          target, within + ir::name(step) + ": ", reasons));
    }
    report_in_place(c, step, p.parts.back());
  }
  return p;
}

/// True for a launch of kernels of one shape.
inline bool is_of_shape(const cuda_plan& p, const cuda_group& group) {
  return group.count >= plan::min_alike && plan::shares_by_shape(p.kernels[group.first]);
}

/// The first group that accesses a buffer.
inline cuda_group& first_user(cuda_plan& p, int buffer) {
  std::size_t k = 0;
  while (!plan::uses(p.kernels[k], buffer)) ++k;
  return p.groups[p.when[k]];
}

/// Extends calls of the matrix library into the gaps between padded rows, if it accepts them. Sums over gaps take precedence, since
/// these gaps must stay 0.
inline void fill_gaps(cuda_plan& p, int device, const options& how) {
  const plan::gap_filler gaps(p.graph, p.strides);
  sorted_set<int> cleared;
  const auto take = [&](cuda_group& group, const std::optional<plan::blas_call>& wider) {
    std::string why;
    const bool can = wider && run::cuda::can_multiply(to_matmul(*wider, how), device, why);
    if (can) group.call = *wider;
    return can;
  };
  const auto buffer_of = [&](const cuda_group& group, const plan::blas_operand& o) {
    return p.kernels[group.first].buffers[static_cast<std::size_t>(o.buffer)].id;
  };
  const auto product_of = [&](const cuda_group& group) -> const plan::blas_call* {
    return group.call && p.kernels[group.first].symbols == 0 ? std::get_if<plan::blas_call>(&*group.call) : nullptr;
  };
  for (cuda_group& group : p.groups)
    if (const auto* call = product_of(group); call && take(group, gaps.with_terms(p.kernels[group.first], *call))) {
      call = product_of(group);
      for (const auto* o : {&call->a, &call->b}) cleared.insert(buffer_of(group, *o));
    }
  for (cuda_group& group : p.groups)
    if (const auto* call = product_of(group); call && cleared.count(buffer_of(group, call->out)) == 0)
      take(group, gaps.with_columns(p.kernels[group.first], *call));
  for (const int id : cleared) first_user(p, id).cleared.push_back(gaps.of(id));
}

/// Where the mode says so, measures the ways to compute each larger kernel, and takes the fastest.
inline void autotune(code& c, cuda_plan& p, const options& how) {
  if (!measures(how)) return;
  const double least = least_work(c, p.first_step, p.groups.size(), p.target.bytes_per_operation);
  for (std::size_t n = 0; n < p.groups.size(); ++n) {
    cuda_group& group = p.groups[n];
    plan::kernel& k = p.kernels[group.first];
    const kernel_report& told = c.about.steps[p.first_step + n];
    if (k.is_opaque() || work_of(told, p.target.bytes_per_operation) < least) continue;
    const series<way> ways = ways_on_gpu(k, group, p.target);
    if (ways.size() < 2) continue;
    const way& w = ways[choose(c, choice_key_of(k, ways, abilities_text(group, p.target, how), c.where), names_of(ways),
                               told.name, static_cast<std::int64_t>(p.first_step + n),
                               [&] { return candidates_on_gpu(k, group, ways, p.target, c.where.index, how); })];
    if (w.name != by_library) group.call.reset();
    k.option = w.option;
  }
}

/// Chooses the kernels for libraries, and the kernels that share code.
inline void choose_code(code& c, cuda_plan& p, const options& how) {
  const auto hints = hints_of(c.layout);
  series<std::size_t> alike(p.kernels.size(), p.kernels.size()), shaped;
  for (cuda_group& group : p.groups) {
    const plan::kernel& first = p.kernels[group.first];
    if (first.is_opaque()) continue;
    group.fit = fit_for(group.of(p.kernels), hints, p.target);
    group.call = library_call(group.of(p.kernels), group.fit, hints, p.target, how);
    ensure(group.call || !first.is_product() || first.products[0].within.empty(), "a library reads through a pad");
    if (!is_of_shape(p, group)) continue;
    for (std::size_t k = group.first; k < group.first + group.count; ++k) {
      p.kernels[k].fit = group.fit;
      shaped.push_back(k);
    }
  }
  fill_gaps(p, c.where.index, how);
  autotune(c, p, how);
  for (const cuda_group& group : p.groups)
    if (const plan::kernel& k = p.kernels[group.first];
        !k.is_opaque() && !group.call && group.count == 1 && k.symbols == 0)
      alike[group.first] = group.first;
  p.shared = plan::codes_of(p.kernels, alike, true);
  plan::share_shapes(p.shared, p.kernels, shaped);
}

/// Reports the schedule of a launch's kernels, which is printed, at step `step`.
inline void report_schedule(code& c, std::span<const plan::kernel* const> kernels, const plan::target& target,
                            const std::string& blocks, std::size_t step) {
  for (const auto* k : kernels)
    if (logs::enabled("schedule") || logs::enabled("loops"))
      log_loops(*k, device_facts(target), plan::text_of(*k) + (k == kernels.back() ? blocks : ""));
  std::string& line = c.about.steps[step].schedule;
  for (std::size_t at = 0, end; at < blocks.size(); at = end + 1) {
    end = blocks.find('\n', at);
    const std::size_t first = std::min(blocks.find_first_not_of(' ', at), end);
    line += (line.empty() ? "" : "; ") + blocks.substr(first, end - first);
  }
}

/// Takes the source of group `from`.
inline void print_again(cuda_group& group, const cuda_group& from, kernel_texts& texts, std::size_t step) {
  group.source = from.source;
  group.text = static_cast<int>(texts.of.size());
  std::size_t count = 0;
  for (const auto& launch : group.source.launches) count = std::max(count, launch.text + 1);
  for (std::size_t t = 0; t < count; ++t) texts.add_again(static_cast<std::size_t>(from.text) + t, step);
}

/// Prints the kernels that are not library calls; the user's kernels are texts, too.
inline void print_cuda(code& c, cuda_plan& p, const options& how, kernel_texts& texts) {
  choose_code(c, p, how);
  for (std::size_t n = 0; n < p.groups.size(); ++n) {
    cuda_group& group = p.groups[n];
    const plan::kernel& first = p.kernels[group.first];
    series<std::string> own;
    if (first.is_opaque()) {
      const auto& f = p.graph[first.opaque].attr.step->function;
      if (f && !f->gpu.source.empty()) own.push_back(f->gpu.source);
    } else {
      if (group.call) {
        c.about.steps[p.first_step + n].tier = "library";
        c.about.steps[p.first_step + n].schedule.clear();
        c.about.steps[p.first_step + n].library = plan::libraries[group.call->index()].name;
        ++c.about.kernels;
        continue;
      }
      if (const std::size_t same = p.shared.first[group.first]; same < group.first) {
        print_again(group, p.groups[p.when[same]], texts, p.first_step + n);
        c.about.steps[p.first_step + n].schedule = c.about.steps[p.first_step + p.when[same]].schedule;
        ++c.about.kernels;
        continue;
      }
      series<const plan::kernel*> parts;
      series<std::size_t> members;
      if (group.count > 1 && first.is_product() && first.symbols > 0) {
        group.apart.resize(group.count);
        for (std::size_t k = 0; k < group.count; ++k) group.apart[k].first = group.first + k, group.apart[k].count = 1;
      }
      for (std::size_t k = group.first; k < group.first + group.count; ++k) {
        p.kernels[k].fit = group.fit;
        members.push_back(p.shared.member[k]);
        parts.push_back(&p.shared.printed(p.kernels, k));
      }
      if (is_of_shape(p, group)) {
        const auto& code = p.shared.codes[static_cast<std::size_t>(p.shared.code[group.first])];
        group.source = emit::cuda(code, {members.data(), members.size()}, p.target);
      } else {
        group.source = emit::cuda(parts, p.target);
      }
      report_schedule(c, {parts.data(), parts.size()}, p.target, group.source.schedule, p.first_step + n);
      own = std::move(group.source.texts);
    }
    if (!own.empty()) {
      group.text = static_cast<int>(texts.of.size());
      ++c.about.kernels;
    }
    for (auto& text : own) {
      logs::to("output_code", [&] { return text; });
      texts.add(text, p.first_step + n);
    }
    for (auto& part : p.parts[n]) print_cuda(c, part, how, texts);
  }
}

/// The steps of a group for `sizes`: the compiled code if it fits, or else another text or the library.
inline void assemble_group(cuda_assembly& to, const cuda_plan& p, const cuda_group& group,
                           const run::cuda::built* module, int device, const options& how,
                           std::span<const std::int64_t> sizes, late_cuda_kernels& late) {
  const auto kernels = group.of(p.kernels);
  const bool open = kernels[0].symbols > 0;
  const plan::size_fit fit = open ? fit_for(kernels, sizes, p.target) : group.fit;
  if (!group.apart.empty() && !fit.narrow) {
    for (const cuda_group& one : group.apart) assemble_group(to, p, one, nullptr, device, how, sizes, late);
    return;
  }
  if (const auto call = open ? library_call(kernels, fit, sizes, p.target, how) : group.call) {
    to.add_library_call(group, *call, how);
  } else if (module && fit == group.fit) {
    series<long> numbers;
    if (group.count == 1) p.shared.append_numbers(group.first, sizes, numbers);
    to.add_launches(group, group.source, module, group.text, numbers);
  } else {
    const run::cache_folder_scope cached(how.cache_dir);
    const auto& made = late.get(group, p.kernels, fit);
    to.add_launches(group, made.source, made.modules.data(), -1, {});
  }
}

/// The steps of a plan with binding `where`, from the modules of all plans. With `apart`, steps may overlap.
inline run::cuda::sequence assemble_cuda(const cuda_plan& p, const binding& where, bool apart,
                                         std::span<const run::cuda::built> modules, int device, const options& how,
                                         build_capture* inside, std::span<const std::int64_t> sizes,
                                         late_cuda_kernels& late) {
  run::cuda::sequence out;
  cuda_assembly assembly(out, p.kernels, where, apart, sizes);
  for (std::size_t n = 0; n < p.groups.size(); ++n) {
    const cuda_group& group = p.groups[n];
    const plan::kernel& first = p.kernels[group.first];
    const run::cuda::built* const module = group.text < 0 ? nullptr : &modules[static_cast<std::size_t>(group.text)];
    if (first.is_opaque()) {
      series<run::cuda::sequence> parts;
      for (const auto& part : p.parts[n])
        parts.push_back(
            assemble_cuda(part, bind_operands(part.results, part.graph, part.kernels, part.strides, part.when, sizes),
                          false, modules, device, how, nullptr, sizes, late));
      const ir::opaque& step = *p.graph[first.opaque].attr.step;
      series<char> in_place;
      if (step.carried > 0) {
        const cuda_plan& body = p.parts[n].back();
        in_place = carried_in_place(body.graph, body.results, step.kind == ir::opaque_kind::loop ? 1 : 0, step.carried,
                                    body.kernels, body.when);
      }
      assembly.add_call(group, device_routine(p.graph, p.graph[first.opaque], std::move(parts), module, device, sizes,
                                              std::move(in_place)));
    } else {
      assembly.add_clearing(group);
      assemble_group(assembly, p, group, module, device, how, sizes, late);
    }
    while (inside && inside->kernel.size() < out.steps.size()) inside->kernel.push_back(n);
    for (std::size_t s = out.steps.size(); s-- > 0 && out.steps[s].number < 0;) {
      out.steps[s].number = static_cast<int>(p.first_step + n);
      out.steps[s].ops = p.ops[n];
    }
  }
  assembly.finish(device);
  out.apart = run::cuda::steps_apart(out);
  return out;
}

/// Whether the graph or a part of it has matrix products.
inline bool has_products(const ir::graph& g) {
  const auto live = g.live();
  return std::any_of(live.begin(), live.end(), [&](auto id) {
    const auto& step = g[id].attr.step;
    return g[id].code == ir::op::dot || (step && std::any_of(step->parts.begin(), step->parts.end(), has_products));
  });
}

/// Whether the graph or a part of it calls a user's function that is not a kernel; a recorded call cannot.
inline bool calls_back(const ir::graph& g) {
  const auto live = g.live();
  return std::any_of(live.begin(), live.end(), [&](auto id) {
    const auto& step = g[id].attr.step;
    return step && ((step->function && step->function->gpu.source.empty()) ||
                    std::any_of(step->parts.begin(), step->parts.end(), calls_back));
  });
}

/// Whether the graph or a part of it has products of windows.
inline bool has_windows(const ir::graph& g) {
  const auto live = g.live();
  return std::any_of(live.begin(), live.end(), [&](auto id) {
    const auto& step = g[id].attr.step;
    return g[id].code == ir::op::window || (step && std::any_of(step->parts.begin(), step->parts.end(),
                                                                [](const auto& part) { return has_windows(part); }));
  });
}

inline bool convolves(const convolution& what, int device) {
  std::string why;
  const bool can = run::cuda::can_convolve(what, device, why);
  if (!can)
    logs::to("fusion",
             [&] { return "no library call for the convolution " + run::cuda::detail::described(what) + ": " + why; });
  return can;
}

/// The facts of a GPU, and of the options for it.
inline plan::target target_of(int device, const ir::graph& g, const options& how) {
  const run::cuda::gpu& gpu = run::cuda::device_at(device);
  const backend_facts* const facts = find_backend(how.backend);
  // Libraries are large, so they are opened only for their ops.
  const bool blas = has_products(g) && run::cuda::blas().problem.empty();
  const bool dnn = has_products(g) && has_windows(g) && run::cuda::dnn().problem.empty();
  return plan::gpu_target({.capability = gpu.capability,
                           .multiprocessors = gpu.multiprocessors,
                           .blas = blas,
                           .tiles = has_products(g) && !blas,
                           .groups = run::cuda::compiles_groups(),
                           .tf32 = how.precision == precision::high,
                           .deterministic = how.deterministic,
                           .overlap = is_recorded(how.mode),
                           .fuses = facts == nullptr || facts->fuses,
                           .parameter_bytes = run::cuda::parameter_bytes(),
                           .convolves = dnn ? convolves : nullptr,
                           .device = device});
}

/// Which attention has kernels on a GPU; null: all is composed.
inline std::shared_ptr<plan::attention_choice> attention_on_gpu(device where) {
  const std::string_view how = attention_setting();
  if (how == "composed") return {};
  const run::cuda::gpu& gpu = run::cuda::device_at(where.index);
  const plan::target target = plan::gpu_target(
      {.capability = gpu.capability, .multiprocessors = gpu.multiprocessors, .groups = run::cuda::compiles_groups()});
  return make_on_heap<plan::attention_choice>(device_facts(target),
                                              how == "kernels" ? plan::no_limits : plan::gpu_limits,
                                              [](const plan::loops::tree& t) { emit::cuda(t); });
}

/// The plan of a graph for these arguments. Reasons that are requested later come from planning it again.
inline cuda_plan plan_for(code& c, const ir::graph& g, std::span<const argument> arguments,
                          const plan::target& target) {
  series<char> copied;
  for (const auto& a : arguments) copied.push_back(a.by_value || !is_row_major(a));
  const auto layouts =
      make_on_heap<series<plan::memory_map>>();  // of the graph, and of the graph with products in slices
  cuda_plan p = plan_cuda(
      c, g, copied,
      [&](const ir::graph& separate, const series<result_spec>&) {
        layouts->push_back(device_layout_of(separate, arguments, c.layout));
        return layouts->back();
      },
      target, "", wants_reasons(c));
  c.reasons = [copied, layouts, target](const code& made) {
    code again;
    again.layout = made.layout;
    std::size_t turn = 0;
    cuda_plan planned = plan_cuda(
        again, made.graph, copied, [&](const ir::graph&, const series<result_spec>&) { return (*layouts)[turn++]; },
        target, "", true);
    for_each_plan(planned, [&](const cuda_plan& one) {
      for (std::size_t k = 0; k < one.kernels.size(); ++k) {
        const std::size_t step = one.first_step + one.when[k];
        again.about.steps[step].loops += text_of_loops(one.kernels[k], chosen_in(made, step), device_facts(target));
      }
    });
    return again.about;
  };
  return p;
}

/// The data from which launches for new sizes are assembled.
struct compiled_cuda {
  cuda_plan plan;
  series<donor> donors;
  series<run::cuda::built> modules;
  int device;
  options how;
  bool apart;
  build_capture* inside;  ///< during compilation
  late_cuda_kernels late;

  void fill(sized& to) {
    const std::span<const std::int64_t> sizes(to.sizes.data(), to.sizes.size());
    const binding where = bind_operands(plan.results, plan.graph, plan.kernels, plan.strides, plan.when, sizes,
                                        apart ? max_scratch_apart : 0);
    to.launches = assemble_cuda(plan, where, apart && where.scratch_bytes <= max_scratch_apart, modules, device, how,
                                inside, sizes, late);
    // Recorded calls need to know which buffers may share memory.
    for (const auto& r : plan.results)
      for (std::size_t i = 0; i < donors.size(); ++i)
        if (is_recorded(how.mode) && can_hold(donors[i], i, r))
          to.launches.shared.push_back({where.operand.at(r.node), static_cast<int>(i)});
    // Ranks repeat the computations of invariant values, whose bits are to be equal: none measures for itself.
    to.launches.tuned = apart && !how.deterministic && !run::world().is_of_processes();
    to.launches.choose = emit::choose_source;
  }
};

inline void generate_cuda(code& c, const ir::graph& g, std::span<const argument> arguments, const options& how) {
  plan::target target = target_of(c.where.index, g, how);
  target.overlap = target.overlap && !c.inside;
  cuda_plan p = plan_for(c, g, arguments, target);
  c.results = p.results;
  c.stage("plan");
  print_cuda(c, p, how, c.texts);
  c.stage("emit");
  const auto modules = c.texts.in_order(run::cuda::build(c.texts.distinct, c.where.index));
  report_modules<run::cuda::built>(c, modules);
  c.stage("compile");
  // A recorded call runs independent steps at the same time.
  const bool apart = target.overlap && !calls_back(p.graph);
  const auto hints = hints_of(c.layout);
  const binding where = bind_operands(p.results, p.graph, p.kernels, p.strides, p.when, hints);
  if (c.inside || c.page) picture_plan(c, p.graph, p.kernels, p.when, where);
  find_replaceable(c, p.graph, p.kernels, p.when, arguments);
  report_peak(c, p.graph, where);
  p.results = c.results;
  const auto made = std::shared_ptr<compiled_cuda>(new compiled_cuda{std::move(p),
                                                                     c.donors,
                                                                     {modules.begin(), modules.end()},
                                                                     c.where.index,
                                                                     how,
                                                                     apart,
                                                                     c.inside,
                                                                     {c.where.index, target}});
  c.plan = made;
  c.fill = [](void* from, sized& to) { static_cast<compiled_cuda*>(from)->fill(to); };
  finalize(c);
  made->inside = nullptr;
  c.stage("bind");
}

}  // namespace sinter::engine::detail
