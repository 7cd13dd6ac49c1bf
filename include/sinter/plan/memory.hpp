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

/// Which results may be written over which operands. Kernel k runs at step when[k], ascending, and kernels of one step at once.
class replacements {
 public:
  /// Without `when` they run one after the other. Both are kept by reference.
  SINTER_COLD replacements(const series<kernel>& kernels, std::span<const std::size_t> when)
      : kernels_(kernels), when_(when) {
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      const kernel& one = kernels[k];
      for (const auto& b : one.buffers) {
        use& u = uses_[b.id];
        u.in_product = false;
        u.loads.clear();
        if (u.kernels.empty() || u.kernels.back() != k) u.kernels.push_back(k);
      }
      const auto used = [&](int buffer) -> use& { return uses_[one.buffers[static_cast<std::size_t>(buffer)].id]; };
      for (const auto& p : one.products) used(p.a.buffer).in_product = used(p.b.buffer).in_product = true;
      for (const auto& i : one.body)
        if (i.kind == kind::load) used(i.at.buffer).loads.push_back(&i.at);
    }
  }

  /// True when result `output` may be written over operand `input`, of equal dtype and extents and row-major: nothing reads the
  /// operand after the result's kernel or beside it, and that kernel reads each element just before it writes the same one.
  SINTER_COLD bool may(int input, int output) const {
    const auto written = uses_.find(output);
    if (written == uses_.end() || written->second.kernels.size() != 1) return false;
    const std::size_t k = written->second.kernels[0];
    const store* const to = store_of(kernels_[k], output);
    if (!to) return false;
    const auto read = uses_.find(input);
    if (read == uses_.end()) return true;
    const use& u = read->second;
    for (std::size_t n = u.kernels.size(); n-- > 0;) {
      const std::size_t reader = u.kernels[n];
      if (reader > k) return false;
      if (reader == k) continue;
      if (when_.empty() || when_[reader] != when_[k]) break;
      return false;
    }
    return u.kernels.back() != k || (!u.in_product && std::all_of(u.loads.begin(), u.loads.end(),
                                                                  [&](const auto* at) { return at->at == to->at.at; }));
  }

 private:
  /// A buffer: the kernels that touch it, in order, and how the last of them reads it.
  struct use {
    series<std::size_t> kernels;
    bool in_product = false;
    series<const access*> loads;
  };

  /// The one store of a kernel of one stage to a buffer, if it does not add; or null.
  static const store* store_of(const kernel& k, int output) {
    if (k.stages > 1) return nullptr;
    const store* to = nullptr;
    for (const auto& s : k.stores)
      if (k.buffers[static_cast<std::size_t>(s.at.buffer)].id == output) {
        if (to || s.accumulate) return nullptr;
        to = &s;
      }
    return to;
  }

  const series<kernel>& kernels_;
  std::span<const std::size_t> when_;
  sorted_map<int, use> uses_;
};

}  // namespace sinter::engine::plan
