// jit/cuda.hpp: graph -> launches on a GPU, compiled by NVRTC and bound to operands.
#pragma once

#include <optional>

#include "../base/series.hpp"
#include "../emit/cuda.hpp"
#include "../plan/blas.hpp"
#include "../plan/horizontal.hpp"
#include "../run/cuda_blas.hpp"
#include "../run/cuda_nvrtc.hpp"
#include "../run/cuda_program.hpp"
#include "code.hpp"
#include "cuda_parts.hpp"

namespace sinter::engine::detail {

/// "mul exp reduce (at net.cpp:12)": what errors call a group of kernels.
inline const char* label_of(std::span<const plan::kernel> group) {
  std::string label;
  location where;
  for (const auto& k : group) {
    label += (label.empty() ? "" : " | ") + k.label;
    for (const auto& i : k.body)
      if (where.line == 0) where = i.where;
  }
  return run::cuda::label(sinter::detail::located(label, where));
}

inline run::cuda::matmul to_matmul(const plan::blas_call& b, const options& how) {
  using run::cuda::epilogue;
  constexpr epilogue after[2][3] = {{epilogue::none, epilogue::relu, epilogue::gelu},
                                    {epilogue::bias, epilogue::bias_relu, epilogue::bias_gelu}};
  run::cuda::matmul m;
  m.m = b.m;
  m.n = b.n;
  m.k = b.k;
  m.batch = b.batch;
  m.repeat = b.repeat;
  m.type = b.type;
  m.result = b.result;
  const auto place = [](const plan::blas_operand& o, std::int64_t& row, std::int64_t& batch, std::int64_t& offset,
                        std::int64_t& repeat) {
    row = o.row;
    batch = o.batch;
    offset = o.offset;
    repeat = o.repeat;
    return o.transpose;
  };
  m.transpose_a = place(b.a, m.row_a, m.batch_a, m.offset_a, m.repeat_a);
  m.transpose_b = place(b.b, m.row_b, m.batch_b, m.offset_b, m.repeat_b);
  place(b.out, m.row_out, m.batch_out, m.offset_out, m.repeat_out);
  m.offset_bias = b.bias_offset;
  m.after = after[b.bias >= 0][static_cast<int>(b.after)];
  m.tf32 = how.precision == precision::high;
  return m;
}

/// What intermediates may take where none shares another's memory.
inline constexpr std::int64_t most_scratch_apart = std::int64_t{256} << 20;

/// Kernels that run at once, and how: a call of the matrix library, or printed.
struct cuda_group {
  std::size_t first = 0, count = 0;
  std::optional<plan::blas_call> call;
  emit::cuda_source source;
  int text = -1;  ///< of all that are compiled
};

/// The steps of a program whose kernels have been printed, and where each kernel finds its operands.
class cuda_assembly {
 public:
  /// With `apart`, kernels have scratch memory of their own each, so that they may overlap.
  cuda_assembly(run::cuda::sequence& out, const series<plan::kernel>& kernels, const binding& where, bool apart)
      : out_(out), kernels_(kernels), where_(where), apart_(apart) {}

  void add_product(const cuda_group& g, const options& how) {
    const plan::blas_call& call = *g.call;
    run::cuda::step s;
    s.what = run::cuda::action::product;
    s.label = label_of({&kernels_[g.first], 1});
    s.product = to_matmul(call, how);
    for (int b : {call.a.buffer, call.b.buffer, call.out.buffer, call.bias})
      if (b >= 0) s.operands.push_back(operand_of(kernels_[g.first].buffers[static_cast<std::size_t>(b)]));
    out_.steps.push_back(std::move(s));
  }

  void add_launches(const cuda_group& g, const run::cuda::built& module) {
    const std::span<const plan::kernel> group(&kernels_[g.first], g.count);
    const char* const label = label_of(group);
    const std::int64_t own = g.source.scratch.evaluate({}), at = apart_ ? round_up(scratch_, 256) : 0;
    for (const auto& launch : g.source.launches) {
      run::cuda::step s = run::cuda::make_launch(module.code, launch.entry, launch.blocks.evaluate({}), launch.threads,
                                                 launch.shared, label);
      for (const auto& k : group)
        for (const auto& b : k.buffers) s.operands.push_back(operand_of(b));
      for (std::size_t i = 0; i < launch.touches.size(); ++i) s.operands[i].touched = launch.touches[i];
      s.scratch = scratch_begin() + at;
      s.scratch_bytes = own;
      out_.steps.push_back(std::move(s));
    }
    scratch_ = std::max(scratch_, at + own);
  }

  void add_call(const cuda_group& g, std::shared_ptr<const run::cuda::routine> call) {
    const plan::kernel& k = kernels_[g.first];
    run::cuda::step s;
    s.what = run::cuda::action::call;
    s.label = run::cuda::label(k.label);
    for (int place : k.places)
      if (place >= 0) s.operands.push_back(operand_of(k.buffers[static_cast<std::size_t>(place)]));
      else s.operands.push_back({-1});
    s.scratch = scratch_begin();
    scratch_ = std::max(scratch_, call->scratch_bytes());
    s.call = std::move(call);
    out_.steps.push_back(std::move(s));
  }

  void finish(int device) {
    out_.device = device;
    out_.given = static_cast<int>(where_.operand.size() - where_.intermediates.size());
    out_.intermediates = where_.intermediates;
    for (const auto& life : where_.lives) out_.intermediate_bytes.push_back(life.bytes);
    out_.scratch_bytes = scratch_begin() + scratch_;
  }

 private:
  run::cuda::operand operand_of(const plan::buffer_use& b) const {
    return {where_.operand.at(b.id), b.by_value ? static_cast<int>(size_of(b.type)) : 0, b.written};
  }
  std::int64_t scratch_begin() const { return round_up(where_.scratch_bytes, 256); }
  static std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

  run::cuda::sequence& out_;
  const series<plan::kernel>& kernels_;
  const binding& where_;
  bool apart_;
  std::int64_t scratch_ = 0;
};

/// What kernels may assume of the arguments' memory.
inline plan::memory_map device_layout_of(const ir::graph& g, std::span<const argument> arguments) {
  plan::memory_map m = layout_of(g, arguments);
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

/// The matrix library's call for a kernel, if there is a library and it can do that.
inline std::optional<plan::blas_call> library_call(const plan::kernel& k, int device, const options& how) {
  auto call = plan::as_blas(k, true);
  std::string why;
  if (call && !run::cuda::can_multiply(to_matmul(*call, how), device, why)) {
    logs::to("fusion", [&] { return k.label + ": no library call: " + why; });
    call.reset();
  }
  return call;
}

/// A graph planned for a GPU, its kernels not compiled yet.
struct cuda_plan {
  ir::graph graph;
  series<result_spec> results;
  series<plan::kernel> kernels;  ///< in the order of the groups
  series<cuda_group> groups;
  series<std::size_t> when;         ///< per kernel: its group
  std::size_t first_step = 0;       ///< of the report
  series<series<cuda_plan>> parts;  ///< per group; of an opaque step
};

inline cuda_plan plan_cuda(code& c, const ir::graph& g, const series<char>& copied, const memory_rule& memory,
                           const plan::target& target, const std::string& within) {
  cuda_plan p;
  p.graph = with_dense_operands(g, copied);
  p.results = separate_results(p.graph);
  plan::fused fused = plan::fuse(p.graph, memory(p.graph, p.results), target);
  p.first_step = c.about.steps.size();
  series<std::size_t> number(fused.kernels.size()), reported;
  for (const auto& together : plan::horizontal(fused.kernels)) {
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
  report_kernels(c, p.graph, p.kernels, reported, {}, {});
  for (std::size_t k = 0; k < p.groups.size(); ++k) {
    std::string& name = c.about.steps[p.first_step + k].name;
    name = within + name;
  }
  for (const auto& a : fused.apart)
    // Kernels are numbered by launch.
    if (number[a.first] != number[a.second])
      c.about.apart.push_back(
          {p.first_step + number[a.first], p.first_step + number[a.second], plan::in_words(p.graph, a.why)});
  c.about.kernels_unfused += fused.unfused;
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
            return memory_of_part(body, results, given);
          },
          target, within + ir::name(step) + ": "));
    }
  }
  return p;
}

/// Prints what the matrix library does not do; the user's kernels are texts too.
inline void print_cuda(code& c, cuda_plan& p, const emit::cuda_target& target, bool blas, const options& how,
                       series<std::string>& texts, series<std::size_t>& step_of) {
  for (std::size_t n = 0; n < p.groups.size(); ++n) {
    cuda_group& group = p.groups[n];
    const plan::kernel& first = p.kernels[group.first];
    std::string text;
    if (first.is_opaque()) {
      if (const auto& f = p.graph[first.opaque].attr.step->function) text = f->gpu.source;
    } else {
      if (blas && group.count == 1) group.call = library_call(first, c.where.index, how);
      if (group.call) {
        c.about.steps[p.first_step + n].tier = "library";
        ++c.about.kernels;
        continue;
      }
      series<const plan::kernel*> parts;
      for (std::size_t k = 0; k < group.count; ++k) parts.push_back(&p.kernels[group.first + k]);
      group.source = emit::cuda(parts, target);
      text = group.source.text;
    }
    if (!text.empty()) {
      group.text = static_cast<int>(texts.size());
      texts.push_back(std::move(text));
      step_of.push_back(p.first_step + n);
      ++c.about.kernels;
      logs::to("output_code", [&] { return texts.back(); });
    }
    for (auto& part : p.parts[n]) print_cuda(c, part, target, blas, how, texts, step_of);
  }
}

/// The steps of a plan bound as `where`, from the modules of all plans. `apart`: steps may overlap.
inline run::cuda::sequence assemble_cuda(const cuda_plan& p, const binding& where, bool apart,
                                         std::span<const run::cuda::built> modules, int device, const options& how,
                                         anatomy* inside) {
  run::cuda::sequence out;
  cuda_assembly assembly(out, p.kernels, where, apart);
  for (std::size_t n = 0; n < p.groups.size(); ++n) {
    const cuda_group& group = p.groups[n];
    const plan::kernel& first = p.kernels[group.first];
    const run::cuda::built* const module = group.text < 0 ? nullptr : &modules[static_cast<std::size_t>(group.text)];
    if (first.is_opaque()) {
      series<run::cuda::sequence> parts;
      for (const auto& part : p.parts[n])
        parts.push_back(assemble_cuda(part, bind_operands(part.results, part.graph, part.kernels, part.when), false,
                                      modules, device, how, nullptr));
      assembly.add_call(group, device_routine(p.graph, p.graph[first.opaque], std::move(parts), module, device));
    } else if (group.call) {
      assembly.add_product(group, how);
    } else {
      assembly.add_launches(group, *module);
    }
    while (inside && inside->kernel.size() < out.steps.size()) inside->kernel.push_back(n);
  }
  assembly.finish(device);
  return out;
}

/// Whether the graph or a part of it multiplies matrices.
inline bool has_products(const ir::graph& g) {
  const auto live = g.live();
  return std::any_of(live.begin(), live.end(), [&](auto id) {
    const auto& step = g[id].attr.step;
    return g[id].code == ir::op::dot || (step && std::any_of(step->parts.begin(), step->parts.end(), has_products));
  });
}

inline void generate_cuda(code& c, const ir::graph& g, std::span<const argument> arguments, const options& how) {
  const run::cuda::gpu& gpu = run::cuda::device_at(c.where.index);
  // The library is large: it is opened for products only.
  const bool blas = has_products(g) && run::cuda::blas().problem.empty();
  series<char> copied;
  for (const auto& a : arguments) copied.push_back(a.by_value || !is_row_major(a));
  cuda_plan p = plan_cuda(
      c, g, copied,
      [&](const ir::graph& separate, const series<result_spec>&) { return device_layout_of(separate, arguments); },
      {.gpu = true, .multiprocessors = gpu.multiprocessors, .blas = blas}, "");
  c.results = p.results;
  c.stage("plan");
  series<std::string> texts;
  series<std::size_t> step_of;
  print_cuda(c, p,
             {.capability = gpu.capability,
              .multiprocessors = gpu.multiprocessors,
              .deterministic = how.deterministic,
              .tf32 = how.precision == precision::high},
             blas, how, texts, step_of);
  c.stage("emit");
  const auto modules = run::cuda::build(texts, c.where.index);
  for (const auto& m : modules) c.about.compiled += !m.from_cache;
  for (std::size_t k = 0; k < modules.size(); ++k)
    report_origin(c, step_of[k], static_cast<std::int64_t>(k), modules[k].from);
  c.about.sources = std::move(texts);
  c.stage("compile");
  // A recorded call runs side by side what does not wait for one another; one with opaque steps is not recorded.
  const bool apart = how.mode == mode::reduce_overhead &&
                     std::none_of(p.kernels.begin(), p.kernels.end(), [](const auto& k) { return k.is_opaque(); });
  const binding where = bind_operands(p.results, p.graph, p.kernels, p.when, apart ? most_scratch_apart : 0);
  c.launches = assemble_cuda(p, where, apart && where.scratch_bytes <= most_scratch_apart, modules, c.where.index, how,
                             c.inside);
  picture_plan(c, p.graph, p.kernels, p.when, where);
  find_replaceable(c, p.graph, p.kernels, p.when, arguments);
  for (const auto& r : c.results)
    for (std::size_t i = 0; i < r.may_replace.size(); ++i)
      if (r.may_replace[i])
        c.launches.shared.push_back({where.operand.at(static_cast<int>(r.node)), static_cast<int>(i)});
  c.launches.tuned = apart && !how.deterministic;
  c.about.scratch_bytes = static_cast<std::size_t>(c.launches.scratch_bytes);
  c.stage("bind");
}

}  // namespace sinter::engine::detail
