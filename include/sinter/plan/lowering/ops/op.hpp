// plan/lowering/ops/op.hpp: what the lowerings of several structural ops have in common.
#pragma once

#include "../lowering.hpp"

namespace sinter::engine::plan::ops {

/// The root that computes `value` whole, for the node `target`.
inline root whole(const ir::graph& g, node_id value, node_id target) {
  root r;
  r.value = value;
  r.target = target;
  r.extents = g[value].extents;
  return r;
}

/// Computed where it is read, unless it is stored for another reason. Gives all but value().
template <class Op>
struct inlined {
  static constexpr bool stored = false;
  static void roots(const ir::graph& g, node_id id, series<root>& out) { out.push_back(whole(g, id, id)); }
  static void place(lowering& l, const root& r) { l.place_aligned(r); }
  static int root_value(lowering& l, node_id id, const coordinates& at, coordinates&) { return Op::value(l, id, at); }
};

/// A view: read through its coordinates. Gives all but through().
template <class Op>
struct view : inlined<Op> {
  static int value(lowering& l, node_id id, const coordinates& at) {
    return l.value_at(l.graph()[id].in[0], Op::through(l, id, at, l.axes()));
  }
};

/// In memory always; who reads it loads it.
struct in_memory {
  static constexpr bool stored = true;
  static void roots(const ir::graph& g, node_id id, series<root>& out) { out.push_back(whole(g, id, id)); }
  static void place(lowering& l, const root& r) { l.place_aligned(r); }
  static int value(lowering& l, node_id id, const coordinates&) {
    throw refusal{"%" + std::to_string(id) + " " + ir::name(l.graph()[id].code) + " has to be in memory", id};
  }
  static int root_value(lowering& l, node_id id, const coordinates& at, coordinates&) { return value(l, id, at); }
};

}  // namespace sinter::engine::plan::ops
