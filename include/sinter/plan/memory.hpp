// plan/memory.hpp: where each buffer lives: which intermediates share scratch memory, which results replace an operand.
#pragma once

#include "../base/sorted.hpp"
#include "fusion/fuse.hpp"

namespace sinter::engine::plan {

/// A block of scratch memory that kernels [first, last] use.
struct lifetime {
  int buffer = -1;
  std::size_t first = 0, last = 0;
  std::int64_t bytes = 0;
};

struct arena {
  sorted_map<int, std::int64_t> offset;  ///< per buffer
  std::int64_t bytes = 0;
};

/// Offsets, multiples of 64, such that blocks alive together do not overlap; the largest are placed first, each as low
/// as it fits.
SINTER_API arena place(series<lifetime> blocks) {
  sort_stably(blocks, [](const lifetime& a, const lifetime& b) { return a.bytes > b.bytes; });
  arena out;
  series<lifetime> placed;
  for (auto& b : blocks) {
    b.bytes = (b.bytes + 63) / 64 * 64;
    series<std::pair<std::int64_t, std::int64_t>> taken;
    for (const auto& p : placed)
      if (p.first <= b.last && b.first <= p.last)
        taken.emplace_back(out.offset[p.buffer], out.offset[p.buffer] + p.bytes);
    sort_stably(taken, std::less());
    std::int64_t at = 0;
    for (const auto& [from, to] : taken) {
      if (at + b.bytes <= from) break;
      at = std::max(at, to);
    }
    out.offset[b.buffer] = at;
    out.bytes = std::max(out.bytes, at + b.bytes);
    placed.push_back(b);
  }
  return out;
}

/// The buffers that kernels write, but for those in `elsewhere`, with the kernels between first and last use.
SINTER_API series<lifetime> lifetimes(const ir::graph& g, const series<kernel>& kernels,
                                      const sorted_set<int>& elsewhere, std::span<const std::int64_t> sizes) {
  sorted_map<int, lifetime> found;
  for (std::size_t k = 0; k < kernels.size(); ++k)
    for (const auto& b : kernels[k].buffers) {
      if (elsewhere.count(b.id)) continue;
      auto [at, fresh] = found.emplace(b.id, {});
      if (fresh) {
        const ir::node& v = g[static_cast<node_id>(b.id)];
        at->second = {b.id, k, k, (ir::product(v.extents) * size_of(v.type)).evaluate(sizes)};
      }
      at->second.last = k;
    }
  series<lifetime> out;
  for (auto& [id, life] : found) out.push_back(life);
  return out;
}

/// True when result `output` may be written over operand `input`, of equal dtype and extents and row-major: nothing reads the operand after
/// the result's kernel, and that kernel reads each element just before it writes the same one.
SINTER_API bool may_replace(const series<kernel>& kernels, int input, int output) {
  bool written = false;
  for (const auto& k : kernels) {
    int in = -1, out = -1;
    for (std::size_t b = 0; b < k.buffers.size(); ++b) {
      if (k.buffers[b].id == input) in = static_cast<int>(b);
      if (k.buffers[b].id == output) out = static_cast<int>(b);
    }
    if (written && (in >= 0 || out >= 0)) return false;
    if (out < 0) continue;
    written = true;
    if (k.stages > 1) return false;
    const store* to = nullptr;
    for (const auto& s : k.stores)
      if (s.at.buffer == out) {
        if (to || s.accumulate) return false;
        to = &s;
      }
    if (!to) return false;
    for (const auto& p : k.products)
      if (p.a.buffer == in || p.b.buffer == in) return false;
    for (const auto& i : k.body)
      if (i.kind == kind::load && i.at.buffer == in && !(i.at.at == to->at.at)) return false;
  }
  return written;
}

}  // namespace sinter::engine::plan
