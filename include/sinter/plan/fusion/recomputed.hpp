// plan/fusion/recomputed.hpp: finds a value that a kernel would compute at so many indices that it is better stored.
#pragma once

#include <algorithm>

#include "../../base/series.hpp"
#include "../kernel/index.hpp"
#include "../kernel/root.hpp"
#include "../kernel/target.hpp"
#include "../lowering/ops/table.hpp"

namespace sinter::engine::plan {

/// The operations for an element of a root (a costly op counts 10), and the additional operations for each op in the graph.
/// If shifted or strided views of computed values need more, they are stored.
inline constexpr std::int64_t max_repeated = 16, max_per_operation = 2;

/// A pad with short rows that an element of a root reads at more places is stored if one thread walks a row. Such rows are
/// hardly longer than their edges, where each read is checked.
inline constexpr std::int64_t short_padded_row = 256;
inline constexpr std::size_t max_guarded_reads = 8;

namespace detail {

/// Walks from a root down to memory, the latest nodes first, with the distinct index maps at which each node is read. Limits
/// stop the walk, so that it takes no longer than lowering within these limits.
class recomputed {
 public:
  recomputed(const ir::graph& g, const memory_map& memory, const target& t)
      : g_(g), memory_(memory), views_(g, {}, memory, {}), reads_(g.size()), pads_(!t.guards_lanes) {}

  /// A value that should be stored before `r` is computed; no_node if none.
  node_id find(const root& r) {
    if (r.value == ir::no_node || is_empty(r.value)) return ir::no_node;
    operations_ = computed_ = 0;
    indices_ = 0;
    bases_.clear();
    start(r, from_here(r.extents));
    node_id found = ir::no_node;
    while (!waiting_.empty() && found == ir::no_node) {
      std::pop_heap(waiting_.begin(), waiting_.end());
      const node_id id = waiting_.back();
      waiting_.pop_back();
      if (memory_.stored[id] || is_empty(id)) continue;
      if (is_guarded_often(id)) found = id;
      else if (!walk(id)) found = shared_below(topmost(id));
    }
    for (const node_id id : touched_) reads_[id] = {};
    touched_.clear();
    waiting_.clear();
    return found;
  }

 private:
  /// Coordinates over the axes of a base: first the root's axes, then those that start where a reshape does not follow axes.
  struct index_map {
    std::size_t base = 0;
    coordinates at;
    bool operator==(const index_map&) const = default;
  };
  struct reads {
    series<index_map> maps;    ///< until the walk arrives there
    std::size_t many = 0;      ///< number of maps
    node_id by = ir::no_node;  ///< the reader
    bool by_several = false;
  };

  bool is_empty(node_id id) const { return ir::product(g_[id].extents).is(0); }

  void start(const root& r, index_map whole) {
    const ir::node& v = g_[r.value];
    if (r.indexed >= 0) read(g_[r.target].in[static_cast<std::size_t>(r.indexed)], r.target, whole);
    if (r.value != r.target) return read(r.value, r.target, std::move(whole));
    if (ir::is_pointwise(v.code)) count(r.value, 1);
    if (v.code == ir::op::dot || ir::ops::is_attention(v.code)) return;
    if (ir::is_pointwise(v.code) || lowering_of(v.code).stored) {
      for (const node_id in : v.in) read(in, r.value, whole);
    } else {
      view(r.value, whole);
    }
  }

  void read(node_id id, node_id by, index_map m) {
    const auto& extents = g_[id].extents;
    for (std::size_t d = 0; d < extents.size(); ++d)
      if (extents[d].is(1)) m.at[d] = constant_coordinate(0, axes_of(m));
    reads& x = reads_[id];
    if (x.many == 0) {
      touched_.push_back(id);
      waiting_.push_back(id);
      std::push_heap(waiting_.begin(), waiting_.end());
      x.by = by;
    }
    x.by_several = x.by_several || x.by != by;
    if (std::find(x.maps.begin(), x.maps.end(), m) != x.maps.end()) return;
    x.maps.push_back(std::move(m));
    ++x.many;
  }

  bool is_guarded_often(node_id id) const {
    const ir::node& v = g_[id];
    if (!pads_ || v.code != ir::op::pad || reads_[id].many <= max_guarded_reads) return false;
    const std::size_t last = v.extents.size() - 1;
    const bool along = !v.attr.dims[last].is(0) || !v.attr.dims[2 * last + 1].is(0);
    return along && v.extents[last].evaluate(memory_.hints) <= short_padded_row;
  }

  /// False when the value would be computed too often.
  bool walk(node_id id) {
    const ir::node& v = g_[id];
    const auto maps = std::exchange(reads_[id].maps, {});
    if (lowering_of(v.code).parts)
      computed_ += static_cast<std::int64_t>(maps.size());  // checks which part contains it
    if (ir::is_pointwise(v.code) || v.code == ir::op::gather)
      if (!count(id, static_cast<std::int64_t>(maps.size()))) return false;
    for (const auto& m : maps) {
      if (!ir::is_pointwise(v.code)) view(id, m);
      else
        for (const node_id in : v.in) read(in, id, m);
    }
    return true;
  }

  bool count(node_id id, std::int64_t maps) {
    const std::int64_t cost = ir::is_pointwise(g_[id].code) && ir::is_expensive(g_[id].code) ? 10 : 1;
    operations_ += cost;
    computed_ += cost * maps;
    return maps == 1 || computed_ <= max_repeated + max_per_operation * operations_;
  }

  /// Adds the reads of a view or a gather at `m`.
  void view(node_id id, const index_map& m) {
    const ir::node& v = g_[id];
    if (v.code == ir::op::reshape) return read(v.in[0], id, reshaped(v, m));
    if (const auto parts = lowering_of(v.code).parts) {
      auto below = parts(g_, id, m.at, axes_of(m));
      for (std::size_t k = 0; k < v.in.size(); ++k) read(v.in[k], id, {m.base, std::move(below[k])});
      return;
    }
    if (const auto through = lowering_of(v.code).through)
      return read(v.in[0], id, {m.base, through(views_, id, m.at, bases_[m.base])});
    if (v.code != ir::op::gather) return;
    read(v.in[1], id, m);
    index_map below = m;
    affine& c = below.at[static_cast<std::size_t>(v.attr.ints[0])];
    c = constant_coordinate(0, axes_of(m));
    c.indirect = 1;
    c.index = indices_++;
    for (const auto& x : below.at)
      if (x.index >= 0 && x.index != c.index) return;  // an index that is read at an index is stored in any case
    read(v.in[0], id, std::move(below));
  }

  /// If axes would have to be split, or the value stored, distinct maps stay distinct, which suffices for counting.
  index_map reshaped(const ir::node& v, const index_map& m) {
    const auto& in = g_[v.in[0]].extents;
    auto at = delinearize(linear(m.at, row_major_strides(v.extents), axes_of(m)), in, bases_[m.base]);
    if (auto* const c = std::get_if<coordinates>(&at); c && axes_of(m) > 0) return {m.base, std::move(*c)};
    return from_here(in);
  }
  index_map from_here(const ir::shape& extents) {
    index_map m{bases_.size(), {}};
    bases_.emplace_back(extents.begin(), extents.end());
    const std::size_t n = extents.size();
    for (std::size_t d = 0; d < n; ++d)
      m.at.push_back(extents[d].is(1) ? constant_coordinate(0, n) : axis_coordinate(d, n));
    return m;
  }
  std::size_t axes_of(const index_map& m) const { return bases_[m.base].size(); }

  /// The last result of the elementwise chain with `id`, including views and pads. Either way one array is stored; this one
  /// is hardly larger, and nothing is computed twice.
  node_id topmost(node_id id) const {
    const std::int64_t most = 2 * elements(id);
    for (node_id at = id;;) {
      const reads& x = reads_[at];
      const op_lowering& by = lowering_of(g_[x.by].code);
      const bool pointwise = ir::is_pointwise(g_[x.by].code),
                 moves = by.through || (by.parts && g_[x.by].in.size() == 1);
      if (x.by_several || !(pointwise || moves) || reads_[x.by].many != x.many || elements(x.by) > most) return id;
      at = x.by;
      if (pointwise) id = at;
    }
  }
  std::int64_t elements(node_id id) const { return ir::product(g_[id].extents).evaluate(memory_.hints); }

  /// The array from which cheap operations compute a value, if it is also read beside it: the array serves both.
  node_id shared_below(node_id id) const {
    for (;;) {
      const ir::node& v = g_[id];
      if (!ir::is_pointwise(v.code) || ir::is_expensive(v.code)) return id;
      node_id array = ir::no_node;
      for (const node_id in : v.in) {
        if (g_[in].code == ir::op::constant || in == array) continue;
        if (array != ir::no_node) return id;
        array = in;
      }
      if (array == ir::no_node || memory_.stored[array] || !ir::is_pointwise(g_[array].code)) return id;
      const reads& x = reads_[array];
      if (x.by == ir::no_node || (x.by == id && !x.by_several)) return id;
      id = array;
    }
  }

  const ir::graph& g_;
  const memory_map& memory_;
  lowering views_;                     ///< without roots: computes coordinates of views
  series<reads> reads_;                ///< per node
  series<node_id> touched_, waiting_;  ///< nodes that were read; among them a heap of nodes not yet visited
  series<series<dim>> bases_;
  std::int64_t operations_ = 0, computed_ = 0;  ///< of the graph; for an element of the root
  int indices_ = 0;
  bool pads_;  ///< pads may be stored
};

}  // namespace detail
}  // namespace sinter::engine::plan
