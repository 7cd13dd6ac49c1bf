// report/join.hpp: joins the reports of a function's segments.
#pragma once

#include <algorithm>

#include "../base/config.hpp"
#include "../engine/report.hpp"

namespace sinter::engine::reporting {

/// Adds a segment's report: numbers are summed, and kernels follow those of earlier segments.
SINTER_API void join(report& sum, const report& did) {
  const std::size_t kernels = sum.steps.size(), sources = sum.sources.size();
  sum.nodes_traced += did.nodes_traced;
  sum.nodes_rewritten += did.nodes_rewritten;
  sum.kernels_unfused += did.kernels_unfused;
  sum.kernels += did.kernels;
  sum.collectives += did.collectives;
  sum.copies += did.copies;
  sum.lowered += did.lowered;
  sum.tried += did.tried;
  sum.compiled += did.compiled;
  sum.measured += did.measured;
  if (sum.peak.buffers.empty() || did.scratch_bytes > sum.scratch_bytes) {
    sum.peak = did.peak;
    sum.peak.step += kernels;
  }
  sum.scratch_bytes = std::max(sum.scratch_bytes, did.scratch_bytes);
  sum.argument_bytes += did.argument_bytes;
  sum.result_bytes += did.result_bytes;
  sum.replaced_bytes += did.replaced_bytes;
  sum.backend = did.backend;
  if (!did.problem.empty()) sum.problem = did.problem;
  sum.graph += did.graph;
  sum.sources.insert(sum.sources.end(), did.sources.begin(), did.sources.end());
  for (kernel_report k : did.steps) {
    if (k.source >= 0) k.source += static_cast<std::int64_t>(sources);
    k.started += sum.milliseconds;
    k.first += kernels;
    sum.steps.push_back(std::move(k));
  }
  for (choice_report c : did.choices) {
    if (c.step >= 0) c.step += static_cast<std::int64_t>(kernels);
    sum.choices.push_back(std::move(c));
  }
  for (const auto& a : did.apart) sum.apart.push_back({a.first + kernels, a.second + kernels, a.why});
  sum.attention.insert(sum.attention.end(), did.attention.begin(), did.attention.end());
  sum.exchanges.insert(sum.exchanges.end(), did.exchanges.begin(), did.exchanges.end());
  for (const auto& s : did.stages) sum.stages.push_back({s.name, s.started + sum.milliseconds, s.milliseconds});
  sum.milliseconds += did.milliseconds;
}

}  // namespace sinter::engine::reporting
