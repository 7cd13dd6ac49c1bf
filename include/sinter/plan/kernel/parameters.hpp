// plan/kernel/parameters.hpp: checks that a launch's parameters can hold a kernel's operands; C++ numbers may be thousands.
#pragma once

#include <cstdlib>

#include "kernel.hpp"
#include "root.hpp"
#include "target.hpp"

namespace sinter::engine::plan {

namespace detail {

/// The bytes of a launch's parameters for this kernel alone.
inline std::int64_t parameter_bytes(const kernel& k, std::size_t symbols) {
  std::int64_t end = 0;
  for (const auto& b : k.buffers) {
    const std::int64_t bytes = b.by_value ? static_cast<std::int64_t>(size_of(b.type)) : 8;
    end = (end + 2 * bytes - 1) / bytes * bytes;
  }
  return (end + 7) / 8 * 8 + 8 + 8 * static_cast<std::int64_t>(symbols);  // the scratch address, the sizes
}

/// Finds the value that needs about half of its root's reads.
class halving {
 public:
  halving(const ir::graph& g, const memory_map& memory, const root& r)
      : g_(g), memory_(memory), target_(r.target), seen_(g.size(), 0) {
    if (r.value != ir::no_node) visit(r.value);
  }

  /// no_node if there is none.
  node_id middle() const {
    const auto off = [&](std::size_t reads) {
      return std::abs(2 * static_cast<long>(reads) - static_cast<long>(reads_));
    };
    node_id best = ir::no_node;
    long least = 0;
    for (const auto& [id, reads] : values_)
      if (best == ir::no_node || off(reads) < least) best = id, least = off(reads);
    return best;
  }

 private:
  void visit(node_id id) {
    if (seen_[id]++) return;
    if (memory_.stored[id] && id != target_) {
      ++reads_;
      return;
    }
    const std::size_t before = reads_;
    for (const auto in : g_[id].in) visit(in);
    if (id != target_ && ir::is_pointwise(g_[id].code)) values_.emplace_back(id, reads_ - before);
  }

  const ir::graph& g_;
  const memory_map& memory_;
  const node_id target_;
  std::size_t reads_ = 0;
  series<char> seen_;
  series<std::pair<node_id, std::size_t>> values_;
};

}  // namespace detail

/// Throws refusal if a launch cannot take the parameters of the roots' kernel.
SINTER_API void check_parameters(const ir::graph& g, const series<root>& roots, const memory_map& memory,
                                 const kernel& k, const target& t) {
  if (detail::parameter_bytes(k, memory.hints.size()) <= t.parameter_bytes) return;
  const node_id half = roots.size() == 1 ? detail::halving(g, memory, roots[0]).middle() : ir::no_node;
  if (roots.size() > 1 || half != ir::no_node) throw refusal{"more operands than a launch takes", half};
}

}  // namespace sinter::engine::plan
