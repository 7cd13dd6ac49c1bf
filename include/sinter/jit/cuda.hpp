// jit/cuda.hpp: graph -> launches on a GPU, compiled by NVRTC and bound to operands.
#pragma once

#include <numeric>

#include "../base/series.hpp"
#include "../emit/cuda.hpp"
#include "../run/cuda_nvrtc.hpp"
#include "../run/cuda_program.hpp"
#include "code.hpp"

namespace sinter::engine::detail {

/// "mul exp reduce (at net.cpp:12)": what errors call a group of kernels.
inline std::string label_of(const series<plan::kernel>& kernels, const series<std::size_t>& group) {
  std::string label;
  location where;
  for (auto k : group) {
    label += (label.empty() ? "" : " | ") + kernels[k].label;
    for (const auto& i : kernels[k].body)
      if (where.line == 0) where = i.where;
  }
  return sinter::detail::located(label, where);
}

/// The steps of a program whose kernels have been printed, and where each kernel finds its operands.
class cuda_assembly {
 public:
  cuda_assembly(code& c, const plan::fused& fused, const binding& where) : c_(c), fused_(fused), where_(where) {}

  void add_launches(const emit::cuda_source& source, const run::cuda::built& module, const series<std::size_t>& group) {
    const char* const label = run::cuda::label(label_of(fused_.kernels, group));
    for (const auto& launch : source.launches) {
      run::cuda::step s = run::cuda::make_launch(module.code, launch.entry, launch.blocks.evaluate({}), launch.threads,
                                                 launch.shared, label);
      for (auto k : group)
        for (const auto& b : fused_.kernels[k].buffers) s.operands.push_back(operand_of(b));
      s.scratch = where_.scratch_bytes;
      c_.launches.steps.push_back(std::move(s));
    }
    scratch_ = std::max(scratch_, source.scratch.evaluate({}));
  }

  void finish() {
    c_.launches.device = c_.where.index;
    c_.launches.intermediates = where_.intermediates;
    c_.launches.scratch_bytes = where_.scratch_bytes + scratch_;
  }

 private:
  run::cuda::operand operand_of(const plan::buffer_use& b) const {
    return {where_.operand.at(b.id), b.by_value ? static_cast<int>(size_of(b.type)) : 0};
  }

  code& c_;
  const plan::fused& fused_;
  const binding& where_;
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

inline void generate_cuda(code& c, ir::graph g, std::span<const argument> arguments, const options& how) {
  const run::cuda::gpu& gpu = run::cuda::device_at(c.where.index);
  c.results = separate_results(g);
  const plan::fused fused = plan::fuse(g, device_layout_of(g, arguments),
                                       {.gpu = true, .multiprocessors = gpu.multiprocessors, .blas = false});
  const emit::cuda_target target{.capability = gpu.capability,
                                 .multiprocessors = gpu.multiprocessors,
                                 .deterministic = how.deterministic,
                                 .tf32 = how.precision == precision::high};
  series<std::size_t> when(fused.kernels.size());
  std::iota(when.begin(), when.end(), std::size_t{0});
  series<emit::cuda_source> sources;
  series<std::string> texts;
  for (const auto& k : fused.kernels) {
    sources.push_back(emit::cuda(k, target));
    texts.push_back(sources.back().text);
    logs::to("output_code", [&] { return texts.back(); });
  }
  const auto modules = run::cuda::build(texts, c.where.index);
  for (const auto& m : modules) c.about.compiled += !m.from_cache;
  c.about.kernels_unfused = fused.unfused;
  c.about.kernels = fused.kernels.size();
  c.about.sources = std::move(texts);
  const binding where = bind_operands(c, g, fused.kernels, when);
  cuda_assembly assembly(c, fused, where);
  for (std::size_t k = 0; k < sources.size(); ++k) assembly.add_launches(sources[k], modules[k], {k});
  assembly.finish();
  find_replaceable(c, g, fused.kernels, when, arguments);
  c.about.scratch_bytes = static_cast<std::size_t>(c.launches.scratch_bytes);
}

}  // namespace sinter::engine::detail
