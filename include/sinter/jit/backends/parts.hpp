// jit/backends/parts.hpp: opaque steps and their parts, between a graph and a backend: layouts, bytes, users' functions.
#pragma once

#include <functional>

#include "../../base/local_list.hpp"
#include "../../base/series.hpp"
#include "../../ir/ops/scatter.hpp"
#include "../../run/control.hpp"
#include "code.hpp"

namespace sinter::engine::detail {

/// The memory of a plan's inputs and results, once these are separate nodes.
using memory_rule = std::function<plan::memory_map(const ir::graph&, const series<result_spec>&)>;

/// The assumptions of a part about the memory of its inputs and results, which are row-major.
struct part_layout {
  series<std::int64_t> inputs, results;  ///< known divisors of addresses, in bytes
  int by_value = -1;                     ///< the input that kernels receive as a parameter
};

inline ir::dim bytes_of(dtype type, const ir::shape& extents) {
  return ir::product(extents) * ir::dim(static_cast<std::int64_t>(size_of(type)));
}
inline ir::dim bytes_of(const ir::graph& g, ir::node_id id) { return bytes_of(g[id].type, g[id].extents); }

/// The largest power of two, at most 64, that is known to divide the addresses of consecutive blocks of this many bytes.
inline std::int64_t alignment_of_slices(const ir::dim& bytes) {
  std::int64_t step = 64;
  while (step > 1 && !bytes.divided_by(step)) step /= 2;
  return step;
}

/// A copy of the graph in which opaque nodes read copies of the inputs selected by `copied`.
inline ir::graph with_dense_operands(const ir::graph& g, const series<char>& copied) {
  const auto live = g.live();
  const auto is_copied = [&](ir::node_id id) {
    id = plan::memory_behind(g, id);
    return g[id].code == ir::op::input && copied[static_cast<std::size_t>(g[id].attr.ints[0])];
  };
  bool any = false;
  for (auto id : live)
    if (g[id].code == ir::op::opaque) any = any || std::any_of(g[id].in.begin(), g[id].in.end(), is_copied);
  if (!any) return g;
  ir::graph out;
  series<ir::node_id> moved(g.size(), ir::no_node);
  for (auto id : g.inputs) moved[id] = out.add_input(g[id].type, g[id].extents, g[id].where);
  for (auto id : live) {
    const ir::node& n = g[id];
    if (n.code == ir::op::input) continue;
    series<ir::node_id> in;
    for (auto operand : n.in)
      in.push_back(n.code == ir::op::opaque && is_copied(operand) ? out.mark(moved[operand]) : moved[operand]);
    moved[id] = out.push(n.code, std::move(in), n.attr, n.where);
  }
  for (auto id : g.outputs) out.outputs.push_back(moved[id]);
  return out;
}

/// The graph, in which scatters that replace elements keep only the last update of each. The remaining updates may be written
/// in any order. Few updates, and updates into a possibly empty base, stay in order.
inline ir::graph with_last_updates(ir::graph g) {
  constexpr std::int64_t few = 32;
  const auto live = g.live();
  const auto meets = [&](ir::node_id id) {
    const ir::node& n = g[id];
    if (n.code != ir::op::scatter || n.attr.combiner != ir::op::identity || n.attr.ints[1] != 0) return false;
    const auto axis = static_cast<std::size_t>(n.attr.ints[0]);
    return g[n.in[1]].extents[axis].number().value_or(few + 1) > few && n.extents[axis].lower_bound() > 0;
  };
  if (std::none_of(live.begin(), live.end(), meets)) return g;
  ir::graph out;
  series<ir::node_id> moved(g.size(), ir::no_node);
  for (auto id : g.inputs) moved[id] = out.add_input(g[id].type, g[id].extents, g[id].where);
  for (auto id : live) {
    const ir::node& n = g[id];
    if (n.code == ir::op::input) continue;
    series<ir::node_id> in;
    for (auto operand : n.in) in.push_back(moved[operand]);
    moved[id] = out.push(n.code, std::move(in), n.attr, n.where);
    if (!meets(id)) continue;
    const ir::ops::site s{out, moved[id]};
    const ir::value index = ir::select(ir::ops::scatter_op::is_last(s), s.in(1), -1.0);
    moved[id] = ir::scatter(s.in(0), index, s.in(2), ir::op::identity, s.axis(), true).id();
  }
  for (auto id : g.outputs) out.outputs.push_back(moved[id]);
  return out;
}

/// The layouts of an opaque step's parts. `k` is the planned step; with `gpu`, a loop's index is a parameter of kernels.
inline part_layout layout_of_part(const ir::graph& g, const plan::kernel& k, std::size_t part, bool gpu) {
  const ir::node& n = g[k.opaque];
  const ir::opaque& step = *n.attr.step;
  const ir::graph& body = step.parts[part];
  const auto operand = [&](std::size_t i) {
    return k.places[i] < 0 ? 64 : k.buffers[static_cast<std::size_t>(k.places[i])].alignment;
  };
  part_layout out;
  const auto slice = [&](ir::node_id id) { return alignment_of_slices(bytes_of(body, id)); };
  const bool loop = step.kind == ir::opaque_kind::loop, cond = step.kind == ir::opaque_kind::cond;
  const bool once = cond || step.kind == ir::opaque_kind::call;
  if (loop) {
    out.inputs.push_back(8);
    if (gpu) out.by_value = 0;
  }
  for (std::size_t i = cond ? 1 : 0; i < n.in.size(); ++i) {
    const bool moves = loop && i < step.carried + step.sliced;
    out.inputs.push_back(moves ? std::min(operand(i), slice(body.inputs[i + 1])) : operand(i));
  }
  for (std::size_t r = 0; r < body.outputs.size(); ++r)
    out.results.push_back(loop ? slice(body.outputs[r]) : once ? operand(n.in.size() + r) : 64);
  return out;
}

/// The memory of a part's plan; its symbols are the outer graph's, with these hints.
inline plan::memory_map memory_of_part(const ir::graph& g, const series<result_spec>& results, const part_layout& given,
                                       series<std::int64_t> hints) {
  plan::memory_map m;
  m.hints = std::move(hints);
  m.strides.resize(g.size());
  m.alignment.resize(g.size());
  m.by_value.resize(g.size());
  for (std::size_t k = 0; k < g.inputs.size(); ++k) m.alignment[g.inputs[k]] = given.inputs[k];
  if (given.by_value >= 0) m.by_value[g.inputs[static_cast<std::size_t>(given.by_value)]] = 1;
  for (std::size_t k = 0; k < results.size(); ++k) m.alignment[results[k].node] = given.results[k];
  return m;
}

/// Numbers for some sizes.
using bound_sizes = std::span<const std::int64_t>;

/// Whether a kernel copies one node to another, and is unnecessary if both have the same memory.
inline bool copies(const plan::kernel& k, ir::node_id from, ir::node_id to) {
  if (!k.replaces) return false;
  const auto &a = k.buffers[0], &b = k.buffers[1];
  return static_cast<ir::node_id>((a.written ? b : a).id) == from &&
         static_cast<ir::node_id>((a.written ? a : b).id) == to;
}

/// For each carried value, whether the body may overwrite it with the next one; `first` is the first input for carried
/// values. Its kernel must be an unnecessary copy, and no kernel may read the value afterwards.
inline series<char> carried_in_place(const ir::graph& body, const series<result_spec>& results, std::size_t first,
                                     std::size_t carried, const series<plan::kernel>& kernels,
                                     std::span<const std::size_t> when) {
  series<char> out(carried, 0);
  if (std::none_of(kernels.begin(), kernels.end(), [](const auto& k) { return k.replaces; })) return {};
  const plan::replacements known(kernels, when);
  for (std::size_t k = 0; k < carried; ++k) {
    const ir::node_id from = body.inputs[first + k];
    for (const int id : known.read_in_place(static_cast<int>(results[k].node)))
      out[k] = out[k] || id == static_cast<int>(from);
    const bool copied = std::any_of(kernels.begin(), kernels.end(),
                                    [&](const auto& one) { return copies(one, from, results[k].node); });
    out[k] = out[k] && copied;
  }
  return out;
}

/// Reports the omitted copies of a loop's body: its kernel k is step when[k] of the report, from `first_step` on.
inline void report_in_place(code& c, const ir::opaque& step, const ir::graph& body, const series<result_spec>& results,
                            const series<plan::kernel>& kernels, std::span<const std::size_t> when,
                            std::size_t first_step) {
  const std::size_t first = step.kind == ir::opaque_kind::loop ? 1 : 0;
  const auto in_place = carried_in_place(body, results, first, step.carried, kernels, when);
  for (std::size_t k = 0; k < in_place.size(); ++k)
    for (std::size_t n = 0; in_place[k] && n < kernels.size(); ++n) {
      if (!copies(kernels[n], body.inputs[first + k], results[k].node)) continue;
      kernel_report& r = c.about.steps[first_step + when[n]];
      r.name += " (in place)";
      r.read = r.written = 0;
    }
}

inline run::loop_shape shape_of_loop(const ir::graph& g, const ir::node& n, bound_sizes sizes, series<char> in_place) {
  const ir::opaque& step = *n.attr.step;
  const ir::graph& body = step.parts[0];
  run::loop_shape s;
  s.length = step.length.evaluate(sizes);
  s.reverse = step.reverse;
  s.constants = step.constants;
  s.in_place = std::move(in_place);
  for (std::size_t k = 0; k < step.carried; ++k) s.carried.push_back(bytes_of(g, n.in[k]).evaluate(sizes));
  for (std::size_t k = 0; k < step.sliced; ++k)
    s.sliced.push_back(bytes_of(body, body.inputs[1 + step.carried + k]).evaluate(sizes));
  for (std::size_t k = 0; k < step.stacked; ++k)
    s.stacked.push_back(bytes_of(body, body.outputs[step.carried + k]).evaluate(sizes));
  return s;
}

inline series<std::int64_t> bytes_of_carried(const ir::graph& g, const ir::node& n, bound_sizes sizes) {
  series<std::int64_t> out;
  for (std::size_t k = 0; k < n.attr.step->carried; ++k) out.push_back(bytes_of(g, n.in[k]).evaluate(sizes));
  return out;
}

inline series<std::int64_t> bytes_of_results(const ir::opaque& step, bound_sizes sizes) {
  series<std::int64_t> out;
  for (const auto& r : step.results) out.push_back(bytes_of(r.type, r.extents).evaluate(sizes));
  return out;
}

using foreign_list = sinter::detail::local_list<ir::foreign_array, 16>;

/// The operands and results of a user's function, without their addresses.
class foreign_shapes {
 public:
  foreign_shapes(const ir::graph& g, const ir::node& n, bound_sizes sizes) : operands_(n.in.size()) {
    for (auto id : n.in) add(g[id].type, g[id].extents, sizes);
    for (const auto& r : n.attr.step->results) add(r.type, r.extents, sizes);
  }
  std::size_t operands() const { return operands_; }
  std::size_t size() const { return types_.size(); }
  std::int64_t bytes(std::size_t k) const { return elements(k) * static_cast<std::int64_t>(size_of(types_[k])); }
  std::int64_t elements(std::size_t k) const {
    std::int64_t n = 1;
    for (auto e : extents_[k]) n *= e;
    return n;
  }
  const series<std::int64_t>& extents(std::size_t k) const { return extents_[k]; }

  ir::foreign_array array(std::size_t k, void* data) const {
    return {data, types_[k], extents_[k].data(), static_cast<int>(extents_[k].size())};
  }
  template <class F>
  void call(const F& f, ir::foreign_arrays arrays) const {
    f(arrays.subspan(0, operands_), arrays.subspan(operands_));
  }

 private:
  void add(dtype type, const ir::shape& extents, bound_sizes sizes) {
    types_.push_back(type);
    series<std::int64_t> e;
    for (const auto& d : extents) e.push_back(d.evaluate(sizes));
    extents_.push_back(std::move(e));
  }

  std::size_t operands_;
  series<dtype> types_;
  series<series<std::int64_t>> extents_;
};

}  // namespace sinter::engine::detail
