// plan/fusion/cost.hpp: the cost of moving and computing, in bytes, the only measure of fusion.
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

  /// The bytes of a node's elements, for the hinted sizes.
  std::int64_t bytes(node_id id) const {
    // Sizes beyond any memory are planned, too: their sums must not overflow.
    constexpr std::int64_t most = std::int64_t{1} << 52;
    std::int64_t& known = bytes_[id];
    if (known < 0)
      known = std::clamp<std::int64_t>(ir::product(g_[id].extents).evaluate(memory_.hints), 0, most) *
              static_cast<std::int64_t>(size_of(g_[id].type));
    return known;
  }

  /// True when `kernels` readers of a value move less by reading it than by computing it. One kernel computes it in any case,
  /// and a stored value is written once.
  bool pays_to_store(node_id id, std::int64_t kernels) const {
    const double stored = static_cast<double>(bytes(id)) * static_cast<double>(1 + kernels);
    return static_cast<double>(kernels - 1) *
               computing(id, stored / static_cast<double>(kernels - 1), {target_.bytes_per_operation}) >=
           stored;
  }

  /// True when a value that a kernel would compute `times` times for each element is better stored, written once and read
  /// that often. Its computation must cost more than the reads by at least the cost of another kernel.
  bool pays_to_keep(node_id id, double times) const {
    const double stored = static_cast<double>(bytes(id)) * (1 + times) + static_cast<double>(target_.kernel_bytes);
    return (times - 1) * computing(id, stored / (times - 1), {target_.bytes_per_operation, 0, true}) >= stored;
  }

  /// True when a number takes each thread of a kernel over `elements` longer than the thread's elements take memory. All
  /// threads together must take longer than another kernel.
  bool pays_to_share(node_id number, double elements) const {
    constexpr double in_thread = 8, least = 8 * in_thread;  // of f32, read and written
    const double enough = std::max(least, static_cast<double>(target_.kernel_bytes) * in_thread / elements);
    return computing(number, enough, {target_.bytes_per_operation, 0, true}) >= enough;
  }

  /// True when computing a value reads at least twice its bytes.
  bool reads_several(node_id id) const {
    const auto enough = 2 * static_cast<double>(bytes(id));
    return computing(id, enough, {0}) >= enough;
  }

  /// Whether a guard that changes within a vector cuts its loop.
  bool cuts_at_guards() const { return !target_.guards_lanes; }

 private:
  /// The cost in bytes of an operation and of a read byte. Operations in f64 count twice.
  struct weights {
    double operation = 0, read = 1;
    bool by_width = false;
  };

  /// The cost of computing a value from memory; values beyond `enough` are not distinguished.
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
  mutable series<std::int64_t> bytes_;  ///< of each node; -1: unknown
  mutable series<char> seen_;
};

}  // namespace sinter::engine::plan::detail
