// jit/rings.hpp: which products beside exchanges are cut into pieces: the option, the speed of devices and links, and reasons.
#pragma once

#include <string>

#include "../engine/engine.hpp"
#include "../rewrite/ring_products.hpp"
#include "../run/cuda/device/driver.hpp"
#include "../run/cuda/program/nccl.hpp"
#include "../run/ranks.hpp"

namespace sinter::engine::detail {

/// Whether the exchanges of a program for a device run on GPUs.
inline bool exchanges_on_gpus(device where) {
  return where.is_cuda() && run::world().is_of_processes() && run::cuda::nccl_is_wanted();
}

/// GPUs by their least compute capability, with the link that most hosts of them have.
struct gpu_ring {
  int capability;
  rewrite::ring_costs costs;
};
inline constexpr gpu_ring gpu_rings[] = {
    {90, {.latency = 35, .link = 2.8e5, .memory = 3.0e6, .launch = 4, .flops_16 = 6.0e8, .flops_32 = 4.5e7}},
    {80, {.latency = 35, .link = 2.0e5, .memory = 1.4e6, .launch = 4, .flops_16 = 2.2e8, .flops_32 = 1.6e7}},
    {0, {.latency = 40, .link = 1.0e4, .memory = 6.0e5, .launch = 4, .flops_16 = 5.0e7, .flops_32 = 1.0e7}},
};

/// On hosts, and where GPUs exchange through them, exchanges run one after another with kernels.
inline rewrite::ring_costs ring_costs_of(device where) {
  if (!exchanges_on_gpus(where)) return {};
  const int capability = run::cuda::device_at(where.index).capability;
  for (const gpu_ring& row : gpu_rings)
    if (capability >= row.capability) return row.costs;
  return {};
}

inline rewrite::ring_products rings_of(const ir::graph& inlined, device where, const options& how) {
  constexpr rewrite::ring_choice choices[] = {rewrite::ring_choice::by_cost, rewrite::ring_choice::always,
                                              rewrite::ring_choice::never};
  return {inlined, choices[static_cast<int>(how.chunks)], ring_costs_of(where)};
}

/// The exchanges that become rings, as text that ranks compare; empty if none does.
inline std::string rings_text(const ir::graph& traced, device where, const options& how) {
  if (!rewrite::may_have_rings(traced)) return "";
  const ir::graph g = ir::inlined(traced);
  const rewrite::ring_products rings = rings_of(g, where, how);
  std::string out;
  std::size_t k = 0;
  for (const auto& note : rings.notes()) {
    if (note.is_cut) out += " " + std::to_string(k);
    ++k;
  }
  return out.empty() ? out : "rings" + out + "\n";
}

/// For explain().
inline series<exchange_report> ring_reports(const ir::graph& traced, device where, const options& how) {
  const ir::graph g = ir::inlined(traced);
  const rewrite::ring_products rings = rings_of(g, where, how);
  series<exchange_report> out;
  for (const auto& note : rings.notes())
    out.push_back({g[note.exchange].where, ir::name(g[note.exchange].code), note.is_cut, note.why});
  return out;
}

}  // namespace sinter::engine::detail
