// plan/fusion/cost.hpp: what moving and computing costs, in bytes: the one measure by which fusion decides.
#pragma once

#include <algorithm>

#include "../../base/series.hpp"
#include "../kernel/kernel.hpp"
#include "../kernel/root.hpp"
#include "../kernel/target.hpp"

namespace sinter::engine::plan::detail {

class costs {
 public:
  costs(const ir::graph& g, const memory_map& memory, const target& t)
      : g_(g), memory_(memory), target_(t), bytes_(g.size(), -1), seen_(g.size(), 0) {}

  /// Of a node's elements, for sizes as the hints have them.
  std::int64_t bytes(node_id id) const {
    // What no memory holds is planned all the same: sums of such sizes stay numbers.
    constexpr std::int64_t most = std::int64_t{1} << 52;
    std::int64_t& known = bytes_[id];
    if (known < 0)
      known = std::clamp<std::int64_t>(ir::product(g_[id].extents).evaluate(memory_.hints), 0, most) *
              static_cast<std::int64_t>(size_of(g_[id].type));
    return known;
  }

  /// True when `kernels` kernels that read a value move less than they would by computing it: one of them computes it either way,
  /// and a value that is stored is written once.
  bool pays_to_store(node_id id, std::int64_t kernels) const {
    const double stored = static_cast<double>(bytes(id)) * static_cast<double>(1 + kernels);
    return static_cast<double>(kernels - 1) *
               computing(id, stored / static_cast<double>(kernels - 1), {target_.bytes_per_operation}) >=
           stored;
  }

  /// True when a value that a kernel would compute `times` times for each element is better in memory, written once and read so often:
  /// what computing it takes beside reads is more, by what another kernel takes at least.
  bool pays_to_keep(node_id id, double times) const {
    const double stored = static_cast<double>(bytes(id)) * (1 + times) + static_cast<double>(target_.kernel_bytes);
    return (times - 1) * computing(id, stored / (times - 1), {target_.bytes_per_operation, 0, true}) >= stored;
  }

  /// True when computing a value reads at least twice its bytes.
  bool reads_several(node_id id) const {
    const auto enough = 2 * static_cast<double>(bytes(id));
    return computing(id, enough, {0}) >= enough;
  }

  /// One thread walks a row, not many side by side.
  bool by_rows() const { return !target_.rows_over_threads; }

 private:
  /// What counts, in bytes: an operation, a byte that is read. By width, operations in f64 are two.
  struct weights {
    double operation = 0, read = 1;
    bool by_width = false;
  };

  /// Computing a value from what is in memory; what is beyond `enough` does not count.
  double computing(node_id id, double enough, weights each) const {
    double sum = 0;
    series<node_id> waiting{id}, met{id};
    seen_[id] = 1;
    while (!waiting.empty() && sum < enough) {
      const node_id at = waiting.back();
      waiting.pop_back();
      const ir::node& v = g_[at];
      if (memory_.stored[at] && at != id) {
        sum += each.read * static_cast<double>(bytes(at));
        continue;
      }
      if (ir::is_pointwise(v.code))
        sum += (ir::is_expensive(v.code) ? 10 : 1) * (each.by_width && size_of(v.type) == 8 ? 2 : 1) * each.operation *
               static_cast<double>(bytes(at) / static_cast<std::int64_t>(size_of(v.type)));
      for (auto in : v.in)
        if (!seen_[in]) {
          seen_[in] = 1;
          met.push_back(in);
          waiting.push_back(in);
        }
    }
    for (auto m : met) seen_[m] = 0;
    return sum;
  }

  const ir::graph& g_;
  const memory_map& memory_;
  const target& target_;
  mutable series<std::int64_t> bytes_;  ///< of each node; -1: nobody asked
  mutable series<char> seen_;
};

}  // namespace sinter::engine::plan::detail
