// plan/fusion/lowering_memo.hpp: the kernels of sets of roots; each structure is lowered and scheduled once.
#pragma once

#include <memory>
#include <unordered_map>

#include "../kernel/parameters.hpp"
#include "../lowering/schedule.hpp"
#include "../lowering/structure.hpp"

namespace sinter::engine::plan::detail {

/// The outcome of lowering a structure: its kernel, with the nodes of the first roots that had it, or the reason for refusal.
struct outcome {
  kernel code;
  series<node_id> nodes;  ///< of the structure, as in `code`
  std::string refused;    ///< the reason for refusal; refers to nodes in `nodes`
  bool failed = false;
  node_id needs_memory = ir::no_node;

  // Facts that fusion needs for every pair.
  bool reduces = false, accumulates = false, scans = false;
};

/// Lowered roots: the outcome of their structure, and their own nodes.
struct lowered_roots {
  std::shared_ptr<const outcome> what;
  series<node_id> nodes;

  /// The own node in place of one of the outcome's nodes.
  node_id own(node_id of) const {
    for (std::size_t n = 0; n < nodes.size(); ++n)
      if (what->nodes[n] == of) return nodes[n];
    return of;
  }
};

class lowering_memo {
 public:
  lowering_memo(const ir::graph& g, const memory_map& memory, const target& t, const series<root>& roots)
      : g_(g), memory_(memory), target_(t), roots_(roots), number_(g.size(), 0), place_(g.size(), 0) {}

  /// The kernel of roots[which], which ascend by target.
  lowered_roots of(std::span<const std::uint32_t> which) {
    structure s = structure_of(g_, memory_, roots_, which, number_);
    auto& known = known_[std::move(s.key)];
    if (!known) known = std::make_shared<const outcome>(lowered(which, s.nodes));
    return {known, std::move(s.nodes)};
  }

  /// The kernel of the roots of two, `which` in all. The structure of both together depends only on their common nodes and on
  /// the order of their roots, so it is computed once.
  lowered_roots of_both(const lowered_roots& a, const lowered_roots& b, std::span<const std::uint32_t> of_a,
                        std::span<const std::uint32_t> which) {
    std::string key;
    for (const outcome* x : {a.what.get(), b.what.get()}) ir::detail::append(key, reinterpret_cast<std::uintptr_t>(x));
    for (std::size_t k = 0, i = 0; k < which.size(); ++k) {
      const bool first = i < of_a.size() && which[k] == of_a[i];
      key += first ? 'a' : 'b';
      i += first;
    }
    const auto size = static_cast<std::uint32_t>(a.nodes.size());
    for (std::uint32_t n = 0; n < size; ++n) place_[a.nodes[n]] = n + 1;
    for (std::uint32_t n = 0; n < b.nodes.size(); ++n)
      if (auto& place = place_[b.nodes[n]]) ir::detail::append(key, n), ir::detail::append(key, place);
      else place = size + n + 1;
    auto& known = joined_[std::move(key)];
    lowered_roots out;
    if (known.what) {
      out.what = known.what;
      out.nodes.reserve(known.from.size());
      for (const auto n : known.from) out.nodes.push_back(n < size ? a.nodes[n] : b.nodes[n - size]);
    } else {
      out = of(which);
      known.what = out.what;
      for (const node_id id : out.nodes) known.from.push_back(place_[id] - 1);
    }
    for (const node_id id : a.nodes) place_[id] = 0;
    for (const node_id id : b.nodes) place_[id] = 0;
    return out;
  }

  /// The kernel with the nodes of these roots.
  kernel code_of(const lowered_roots& x) const {
    kernel k = x.what->code;
    sorted_map<node_id, node_id> own;
    for (std::size_t n = 0; n < x.nodes.size(); ++n) own.emplace(x.what->nodes[n], x.nodes[n]);
    const auto moved = [&](node_id id) { return id == ir::no_node ? id : own.at(id); };
    for (auto& b : k.buffers) b.id = static_cast<int>(own.at(static_cast<node_id>(b.id)));
    for (auto& i : k.body) {
      i.node = moved(i.node);
      i.origin = moved(i.origin);
      if (i.origin != ir::no_node) i.where = g_[i.origin].where;
    }
    return k;
  }

  std::size_t count() const { return known_.size(); }
  std::size_t joined_count() const { return joined_.size(); }

 private:
  outcome lowered(std::span<const std::uint32_t> which, const series<node_id>& nodes) const {
    outcome out;
    out.nodes = nodes;
    series<root> roots;
    for (auto r : which) roots.push_back(roots_[r]);
    try {
      out.code = lower(g_, roots, memory_);
      check_parameters(g_, roots, memory_, out.code, target_);
      schedule(out.code, memory_.hints, target_);
    } catch (const refusal& no) {
      out.failed = true;
      out.refused = no.why;
      out.needs_memory = no.needs_memory;
    } catch (const split_request&) {
      out.failed = true;
      out.refused = "the axes have no common refinement";
    }
    for (const auto& i : out.code.body) out.reduces = out.reduces || is_reduction(i);
    for (const auto& s : out.code.stores) out.accumulates = out.accumulates || s.accumulate;
    out.scans = out.code.stands_alone();
    return out;
  }

  /// For two structures: the outcome, and its nodes among theirs, the second's after the first's.
  struct joined {
    std::shared_ptr<const outcome> what;
    series<std::uint32_t> from;
  };

  const ir::graph& g_;
  const memory_map& memory_;
  const target& target_;
  const series<root>& roots_;
  series<std::uint32_t> number_, place_;  ///< per node, room for structure_of and of_both
  std::unordered_map<std::string, std::shared_ptr<const outcome>> known_;
  std::unordered_map<std::string, joined> joined_;
};

}  // namespace sinter::engine::plan::detail
