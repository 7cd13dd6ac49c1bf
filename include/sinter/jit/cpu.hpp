// jit/cpu.hpp: graph -> kernels for the host, loaded and bound to operands.
#pragma once

#include "../emit/cpu.hpp"
#include "../run/build.hpp"
#include "code.hpp"

namespace sinter::engine::detail {

/// Binds kernels to addresses: inputs, then results, then intermediates.
inline void assemble(code& c, const ir::graph& g, const plan::fused& plan, const std::vector<emit::source>& sources,
                     const std::vector<run::built>& modules, std::span<const argument> arguments) {
  std::map<int, int> operand;
  std::set<int> given;
  for (auto id : g.inputs) operand.emplace(static_cast<int>(id), static_cast<int>(operand.size()));
  for (auto& r : c.results) operand.emplace(static_cast<int>(r.node), static_cast<int>(operand.size()));
  for (const auto& [id, at] : operand) given.insert(id);
  const auto lives = plan::lifetimes(g, plan.kernels, given, {});
  const plan::arena arena = plan::place(lives);
  for (const auto& life : lives) {
    operand.emplace(life.buffer, static_cast<int>(operand.size()));
    c.kernels.intermediates.push_back(arena.offset.at(life.buffer));
  }
  std::int64_t most = 0;
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    run::step s;
    s.code = modules[k].code;
    s.entry = s.code->symbol<run::kernel_function>(emit::cpu_entry);
    for (const auto& b : plan.kernels[k].buffers) s.operands.push_back(operand.at(b.id));
    s.scratch = arena.bytes;
    most = std::max(most, sources[k].scratch.evaluate({}));
    c.kernels.steps.push_back(std::move(s));
  }
  c.kernels.scratch_bytes = arena.bytes + most;
  for (auto& r : c.results) {
    r.may_replace.resize(arguments.size());
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const argument& a = arguments[i];
      r.may_replace[i] =
          a.type == r.type && std::equal(r.extents.begin(), r.extents.end(), a.extents, a.extents + a.rank) &&
          is_row_major(a) && plan::may_replace(plan.kernels, static_cast<int>(g.inputs[i]), static_cast<int>(r.node));
    }
  }
}

inline void generate_cpu(code& c, ir::graph g, std::span<const argument> arguments) {
  c.results = separate_results(g);
  const plan::fused fused = plan::fuse(g, layout_of(g, arguments));
  std::vector<emit::source> sources;
  std::vector<std::string> texts;
  for (const auto& k : fused.kernels) {
    sources.push_back(emit::cpu(k));
    texts.push_back(sources.back().text);
    logs::to("output_code", [&] { return texts.back(); });
  }
  c.about.kernels_unfused = fused.unfused;
  c.about.kernels = fused.kernels.size();
  c.about.sources = texts;
  const auto modules = run::build(texts);
  for (const auto& m : modules) c.about.compiled += !m.from_cache;
  assemble(c, g, fused, sources, modules, arguments);
  c.about.scratch_bytes = static_cast<std::size_t>(c.kernels.scratch_bytes);
}

}  // namespace sinter::engine::detail
