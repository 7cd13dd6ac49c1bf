// jit/cpu.hpp: graph -> kernels for the host, loaded and bound to operands.
#pragma once

#include <numeric>

#include "../base/series.hpp"
#include "../emit/cpu.hpp"
#include "../run/build.hpp"
#include "code.hpp"

namespace sinter::engine::detail {

inline void generate_cpu(code& c, ir::graph g, std::span<const argument> arguments) {
  c.results = separate_results(g);
  const plan::fused fused = plan::fuse(g, layout_of(g, arguments));
  series<std::size_t> in_turn(fused.kernels.size());
  std::iota(in_turn.begin(), in_turn.end(), std::size_t{0});
  report_kernels(c, g, fused.kernels, in_turn, fused.apart, {});
  c.stage("plan");
  series<emit::source> sources;
  series<std::string> texts;
  for (const auto& k : fused.kernels) {
    sources.push_back(emit::cpu(k));
    texts.push_back(sources.back().text);
    logs::to("output_code", [&] { return texts.back(); });
  }
  c.about.kernels_unfused = fused.unfused;
  c.about.kernels = fused.kernels.size();
  c.about.sources = texts;
  c.stage("emit");
  const auto modules = run::build(texts);
  for (const auto& m : modules) c.about.compiled += !m.from_cache;
  for (std::size_t k = 0; k < modules.size(); ++k) report_origin(c, k, static_cast<std::int64_t>(k), modules[k].from);
  c.stage("compile");
  const binding where = bind_operands(c, g, fused.kernels, in_turn);
  std::int64_t most = 0;
  for (std::size_t k = 0; k < fused.kernels.size(); ++k) {
    run::step s;
    s.code = modules[k].code;
    s.entry = s.code->symbol<run::kernel_function>(emit::cpu_entry);
    for (const auto& b : fused.kernels[k].buffers) s.operands.push_back(where.operand.at(b.id));
    s.scratch = where.scratch_bytes;
    s.label = fused.kernels[k].label;
    most = std::max(most, sources[k].scratch.evaluate({}));
    c.kernels.steps.push_back(std::move(s));
    if (c.inside) c.inside->kernel.push_back(k);
  }
  c.kernels.intermediates = where.intermediates;
  c.kernels.scratch_bytes = where.scratch_bytes + most;
  picture_plan(c, g, fused.kernels, in_turn, where);
  find_replaceable(c, g, fused.kernels, in_turn, arguments);
  c.about.scratch_bytes = static_cast<std::size_t>(c.kernels.scratch_bytes);
  c.stage("bind");
}

}  // namespace sinter::engine::detail
