// tests/fuzz/steps.hpp: branches and loops as the host runs them, with the interpreter in place of their parts' kernels.
#pragma once

#include <sinter/jit/pipeline.hpp>

#include "draw.hpp"

namespace fuzz {

using literal_arrays = sinter::series<literal_array>;

inline literal_arrays evaluate_steps(const sinter::ir::graph& g, std::span<const literal_array> inputs,
                                     std::span<const std::int64_t> sizes);

inline std::size_t bytes_of(const literal_array& x) {
  return (sinter::is_float(x.type) ? x.f.size() : x.i.size()) * size_of(x.type);
}

/// A part as the one step of a sequence.
class interpreted final : public sinter::engine::run::routine {
 public:
  interpreted(const sinter::ir::graph& part, std::span<const std::int64_t> sizes) : part_(part), sizes_(sizes) {}

  void run(void* const* buffers, char*, const long*) const override {
    literal_arrays inputs;
    std::vector<std::pair<char*, std::size_t>> read;
    for (auto id : part_.inputs) {
      const auto& n = part_[id];
      inputs.push_back(sinter::ir::unpack(*buffers, n.type, extents_of(n.extents, sizes_)));
      read.emplace_back(static_cast<char*>(*buffers++), bytes_of(inputs.back()));
    }
    for (const auto& x : evaluate_steps(part_, inputs, sizes_)) {
      // Kernels read while they write.
      for (const auto& [from, bytes] : read)
        if (char* const to = static_cast<char*>(*buffers); to < from + bytes && from < to + bytes_of(x))
          throw std::runtime_error("a part writes to what it reads");
      sinter::ir::pack(x, *buffers++);
    }
  }

  static sinter::engine::run::sequence sequence_of(const sinter::ir::graph& part, std::span<const std::int64_t> sizes) {
    sinter::engine::run::sequence s;
    s.steps.emplace_back();
    s.steps[0].call = std::make_shared<interpreted>(part, sizes);
    for (std::size_t k = 0; k < part.inputs.size() + part.outputs.size(); ++k)
      s.steps[0].operands.push_back(static_cast<int>(k));
    return s;
  }

 private:
  const sinter::ir::graph& part_;
  std::span<const std::int64_t> sizes_;
};

/// The results of a branch or a loop, in memory of their own; those that nothing picks are left empty.
inline literal_arrays run_step(const sinter::ir::graph& g, const sinter::series<node_id>& picks, node_id id,
                               const std::vector<const literal_array*>& in, std::span<const std::int64_t> sizes) {
  const auto& n = g[id];
  sinter::series<sinter::engine::run::sequence> parts;
  for (const auto& part : n.attr.step->parts) parts.push_back(interpreted::sequence_of(part, sizes));
  const auto routine = sinter::engine::detail::host_routine(g, n, std::move(parts), sizes);
  std::vector<std::unique_ptr<guarded>> memory;
  std::vector<void*> buffers;
  std::vector<std::vector<unsigned char>> given;
  for (const auto* x : in) {
    memory.push_back(std::make_unique<guarded>(bytes_of(*x), 0xff));
    sinter::ir::pack(*x, memory.back()->data());
    given.emplace_back(memory.back()->data(), memory.back()->data() + memory.back()->size());
    buffers.push_back(memory.back()->data());
  }
  literal_arrays out(picks.size());
  for (std::size_t k = 0; k < picks.size(); ++k) {
    const auto& r = n.attr.step->results[k];
    const auto bytes = static_cast<std::size_t>(sinter::ir::product(r.extents).evaluate(sizes)) * size_of(r.type);
    memory.push_back(std::make_unique<guarded>(bytes, 0xff));
    buffers.push_back(picks[k] == sinter::ir::no_node ? nullptr : memory.back()->data());
  }
  const guarded scratch(static_cast<std::size_t>(routine->scratch_bytes()), 0xff);
  routine->run(buffers.data(), reinterpret_cast<char*>(scratch.data()), sizes.data());
  for (std::size_t k = 0; k < given.size(); ++k)
    if (!std::equal(given[k].begin(), given[k].end(), memory[k]->data()))
      throw std::runtime_error("a step writes to its operand " + std::to_string(k));
  for (const auto& block : memory)
    if (!block->intact() || !scratch.intact()) throw std::runtime_error("a step writes around its memory");
  for (std::size_t k = 0; k < picks.size(); ++k)
    if (picks[k] != sinter::ir::no_node) {
      const auto& r = n.attr.step->results[k];
      out[k] = sinter::ir::unpack(memory[in.size() + k]->data(), r.type, extents_of(r.extents, sizes));
    }
  return out;
}

/// Interprets a graph; its branches and loops are the host's.
inline literal_arrays evaluate_steps(const sinter::ir::graph& g, std::span<const literal_array> inputs,
                                     std::span<const std::int64_t> sizes) {
  const auto live = g.live();
  const sinter::ir::picks picks(g, live);
  std::vector<literal_array> values(g.size());
  std::map<node_id, literal_arrays> steps;
  for (auto id : live) {
    const auto& n = g[id];
    std::vector<const literal_array*> in;
    for (auto x : n.in) in.push_back(&values[x]);
    if (n.code == op::input) values[id] = inputs[static_cast<std::size_t>(n.attr.ints[0])];
    else if (n.code == op::pick) values[id] = steps.at(n.in[0])[static_cast<std::size_t>(n.attr.ints[0])];
    else if (n.code == op::opaque) steps[id] = run_step(g, picks.of(id), id, in, sizes);
    else values[id] = detail::reference::compute({n, {in.begin(), in.end()}, sizes});
  }
  literal_arrays out;
  for (auto id : g.outputs) out.push_back(values[id]);
  return out;
}

/// Whether the host's branches and loops mean what the graph does.
inline std::string run_steps(const sinter::ir::graph& g, const inputs& in, const std::vector<const bounded*>& wanted,
                             const std::vector<std::int64_t>& sizes, tally& count) {
  const auto got = evaluate_steps(g, in.values, sizes);
  for (std::size_t k = 0; k < got.size(); ++k) {
    const std::string why = difference(*wanted[k], got[k], count);
    if (!why.empty()) return "result " + std::to_string(k) + ", " + why;
  }
  return "";
}

}  // namespace fuzz
