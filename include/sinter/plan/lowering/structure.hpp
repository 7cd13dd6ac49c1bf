// plan/lowering/structure.hpp: roots identified by their structure, so that equal parts of a graph are lowered once.
#pragma once

#include <string>

#include "../../base/series.hpp"
#include "../../ir/push.hpp"
#include "../kernel/root.hpp"

namespace sinter::engine::plan {

/// The key of a kernel of some roots, with nodes numbered as they are met. Equal keys have equal kernels, except for the
/// nodes that the numbers represent.
struct structure {
  std::string key;
  series<node_id> nodes;  ///< by number
};

namespace detail {

class structure_writer {
 public:
  structure_writer(const ir::graph& g, const memory_map& memory, series<std::uint32_t>& number)
      : g_(g), memory_(memory), number_(number) {}

  structure write(const series<root>& roots, std::span<const std::uint32_t> which) {
    for (auto r : which) (roots[r].value == roots[r].target ? computed_ : filled_).push_back(roots[r].target);
    for (auto r : which) append_root(roots[r]);
    for (std::size_t at = 0; at < out_.nodes.size(); ++at) append_node(out_.nodes[at]);
    for (auto id : out_.nodes) number_[id] = 0;
    return std::move(out_);
  }

 private:
  template <class T>
  void append(T x) {
    ir::detail::append(out_.key, x);
  }
  void append_dim(const dim& d) {
    if (const auto n = d.number()) append(*n);
    else append(reinterpret_cast<std::uintptr_t>(d.symbolic()));  // interned for the life of the process
  }
  template <class Dims>
  void append_dims(const Dims& dims) {
    append(static_cast<std::uint8_t>(dims.size()));
    for (const dim& d : dims) {
      append(d.is_number());
      append_dim(d);
    }
  }
  void refer(node_id id) {
    if (id == ir::no_node) return append(std::uint32_t{0});
    if (number_[id] == 0) {
      out_.nodes.push_back(id);
      number_[id] = static_cast<std::uint32_t>(out_.nodes.size());
    }
    append(number_[id]);
  }
  static bool is_in(const series<node_id>& ids, node_id id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  }

  void append_root(const root& r) {
    refer(r.value);
    refer(r.target);
    append(static_cast<std::int8_t>(r.indexed));
    if (r.indexed >= 0) {
      refer(g_[r.target].in[static_cast<std::size_t>(r.indexed)]);
      append(static_cast<std::uint8_t>(g_[r.target].code));
      append(static_cast<std::uint8_t>(g_[r.target].attr.combiner));
      for (auto x : g_[r.target].attr.ints) append(x);
    }
    append(r.in_own_order);
    append(r.fill.f);
    append(r.fill.i);
    append_dims(r.extents);
    append_dims(r.start);
  }

  /// A node in memory is identified by its layout, other nodes by their computation.
  void append_node(node_id id) {
    const ir::node& v = g_[id];
    const bool computed = is_in(computed_, id), filled = is_in(filled_, id);
    append(static_cast<std::uint8_t>(v.type));
    append_dims(v.extents);
    append(static_cast<char>(memory_.stored[id] ? 's' : 'c'));
    append(computed);
    append(filled);
    append(id < memory_.read_through.size() && memory_.read_through[id]);
    if (filled) return;
    if (memory_.stored[id]) {
      append_dims(memory_.strides[id]);
      append(id < memory_.alignment.size() ? memory_.alignment[id] : 0);
      append(id < memory_.by_value.size() && memory_.by_value[id]);
      if (!computed) return;
    }
    append(static_cast<std::uint8_t>(v.code));
    append(static_cast<std::uint8_t>(v.attr.combiner));
    append(std::bit_cast<std::uint64_t>(v.attr.literal.f));
    append(v.attr.literal.i);
    append_dims(v.attr.dims);
    if (v.code != ir::op::constant) {  // the number of a constant apart identifies its place
      append(static_cast<std::uint8_t>(v.attr.ints.size()));
      for (auto x : v.attr.ints) append(x);
    }
    if (v.attr.step) {
      append(static_cast<std::uint64_t>(v.attr.step->text.size()));
      out_.key += v.attr.step->text;
    }
    append(static_cast<std::uint32_t>(v.in.size()));
    for (auto x : v.in) refer(x);
  }

  const ir::graph& g_;
  const memory_map& memory_;
  series<std::uint32_t>& number_;      ///< per node of the graph; 0: not met
  series<node_id> computed_, filled_;  ///< targets: of roots that are the node, and of roots that write parts of it
  structure out_;
};

}  // namespace detail

/// The structure of roots[which]. `number` has room for a number per node; all are 0, also afterwards.
inline structure structure_of(const ir::graph& g, const memory_map& memory, const series<root>& roots,
                              std::span<const std::uint32_t> which, series<std::uint32_t>& number) {
  return detail::structure_writer(g, memory, number).write(roots, which);
}

}  // namespace sinter::engine::plan
