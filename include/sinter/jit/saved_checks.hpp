// jit/saved_checks.hpp: whether a program that was read is one of this graph, so that nothing in it leads out of its memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "../base/series.hpp"
#include "../base/sorted.hpp"
#include "../run/host/program.hpp"
#include "backends/cpu_parts.hpp"
#include "backends/cuda_parts.hpp"

namespace sinter::engine::detail {

/// The results are the graph's, and take the memory of arguments of their dtype and extents only.
inline bool are_results_of(const ir::graph& g, const code& c) {
  if (c.results.size() != g.outputs.size() || c.donors.size() != g.inputs.size()) return false;
  series<ir::node_id> of_kind(c.donors.size(), ir::no_node);  // an array of each kind
  const auto fits = [&](int kind, ir::node_id id) {
    if (kind < -1 || kind >= static_cast<int>(of_kind.size())) return false;
    if (kind == -1) return true;
    ir::node_id& first = of_kind[static_cast<std::size_t>(kind)];
    if (first == ir::no_node) first = id;
    return g[first].type == g[id].type && g[first].extents == g[id].extents;
  };
  const auto is_donor = [&](std::size_t i, int kind) { return i < c.donors.size() && c.donors[i].kind == kind; };
  for (std::size_t i = 0; i < c.donors.size(); ++i)
    if (!fits(c.donors[i].kind, g.inputs[i])) return false;
  for (std::size_t k = 0; k < c.results.size(); ++k) {
    const result_spec& r = c.results[k];
    const ir::node& n = g[g.outputs[k]];
    if (r.type != n.type || r.extents != n.extents || !fits(r.kind, g.outputs[k])) return false;
    if (r.kind >= 0 && r.best != c.donors.size() && !is_donor(r.best, r.kind)) return false;
    for (const std::size_t i : r.also)
      if (r.kind < 0 || !is_donor(i, r.kind)) return false;
  }
  // Each kind has an argument, or the table of donors would lack it.
  return std::all_of(c.results.begin(), c.results.end(), [&](const result_spec& r) {
    return r.kind < 0 ||
           std::any_of(c.donors.begin(), c.donors.end(), [&](const donor& d) { return d.kind == r.kind; });
  });
}

/// Each kernel has a text, and each text a line of the report.
inline bool are_texts_of(const code& c, std::size_t kernels) {
  const kernel_texts& t = c.texts;
  const auto below = [](std::size_t end) { return [end](std::size_t n) { return n < end; }; };
  return t.of.size() == kernels && t.step.size() == kernels &&
         std::all_of(t.of.begin(), t.of.end(), below(t.distinct.size())) &&
         std::all_of(t.step.begin(), t.step.end(), below(c.about.steps.size()));
}

inline bool are_intermediates(const series<std::int64_t>& offsets, std::int64_t scratch_bytes) {
  return scratch_bytes >= 0 &&
         std::all_of(offsets.begin(), offsets.end(), [&](std::int64_t at) { return at >= 0 && at <= scratch_bytes; });
}

/// A step of a host, whose table of addresses has so many operands.
inline bool is_right(const run::step& s, int operands, std::int64_t scratch_bytes) {
  const auto* const call = dynamic_cast<const host_function*>(s.call.get());
  if (s.members == 0 || s.operands.size() % s.members != 0 || s.numbers.size() % s.members != 0) return false;
  if (s.scratch < 0 || s.scratch > scratch_bytes || s.threads < 0 || s.threads > run::max_threads()) return false;
  if (s.of_thread < 0 || (s.threads > 0 && s.of_thread > (scratch_bytes - s.scratch) / s.threads)) return false;
  if (call && (s.members != 1 || call->operands() != s.operands.size() || s.threads != 0 ||
               call->scratch_bytes() > scratch_bytes - s.scratch))
    return false;
  return std::all_of(s.operands.begin(), s.operands.end(), [&](int i) { return i >= (call ? -1 : 0) && i < operands; });
}

inline bool are_steps_of(const ir::graph& g, const code& c, const run::sequence& s) {
  const auto operands = static_cast<int>(g.inputs.size() + g.outputs.size() + s.intermediates.size());
  const auto kernels = std::count_if(s.steps.begin(), s.steps.end(), [](const run::step& one) { return !one.call; });
  return are_intermediates(s.intermediates, s.scratch_bytes) && are_texts_of(c, static_cast<std::size_t>(kernels)) &&
         std::all_of(s.steps.begin(), s.steps.end(),
                     [&](const run::step& one) { return is_right(one, operands, s.scratch_bytes); });
}

/// A step on a GPU.
inline bool is_right(const run::cuda::step& s, const code& c, int operands, std::int64_t scratch_bytes) {
  using run::cuda::action;
  const auto* const call = dynamic_cast<const device_function*>(s.call.get());
  if (s.what > action::call || s.number < 0 || static_cast<std::size_t>(s.number) >= c.about.steps.size()) return false;
  if (s.scratch < 0 || s.scratch_bytes < 0 || s.scratch > scratch_bytes || s.scratch_bytes > scratch_bytes - s.scratch)
    return false;
  if (s.what == action::launch && (s.text < 0 || static_cast<std::size_t>(s.text) >= c.texts.of.size())) return false;
  if (s.what == action::call && (!call || call->operands() != s.operands.size())) return false;
  if (s.what == action::fill && s.operands.empty()) return false;
  if ((s.what == action::product || s.what == action::convolution) && s.operands.size() < 3) return false;
  if (s.tabled > s.operands.size()) return false;
  return std::all_of(s.operands.begin(), s.operands.end(), [&](const run::cuda::operand& x) {
    return x.index >= (call ? -1 : 0) && x.index < operands && x.bytes >= 0 && x.bytes <= 8;
  });
}

inline bool are_steps_of(const ir::graph& g, const code& c, const run::cuda::sequence& s) {
  const std::size_t given = g.inputs.size() + g.outputs.size();
  const auto operands = static_cast<int>(given + s.intermediates.size());
  const auto is_operand = [&](int i) { return i >= 0 && i < operands; };
  return s.device == c.where.index && s.given == static_cast<int>(given) && s.sizes == 0 && s.table_bytes >= 0 &&
         s.intermediate_bytes.size() == s.intermediates.size() && are_intermediates(s.intermediates, s.scratch_bytes) &&
         are_texts_of(c, c.texts.of.size()) &&
         std::all_of(s.shared.begin(), s.shared.end(),
                     [&](const auto& x) { return is_operand(x.result) && is_operand(x.argument); }) &&
         std::all_of(s.steps.begin(), s.steps.end(),
                     [&](const auto& one) { return is_right(one, c, operands, s.scratch_bytes); });
}

/// Whether a program that was read, without code, is one of the graph.
inline bool is_program_of(const ir::graph& g, const code& c, const sized& steps) {
  if (!are_results_of(g, c) || c.texts.of.empty()) return false;
  return c.where.is_cuda() ? are_steps_of(g, c, steps.launches) : are_steps_of(g, c, steps.kernels);
}

}  // namespace sinter::engine::detail
