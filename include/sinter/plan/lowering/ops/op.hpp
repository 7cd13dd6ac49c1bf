// plan/lowering/ops/op.hpp: base classes for the lowerings of structural ops.
#pragma once

#include "../lowering.hpp"

namespace sinter::engine::plan::ops {

/// The root that computes the whole of `value` for the node `target`.
inline root whole(const ir::graph& g, node_id value, node_id target) {
  root r;
  r.value = value;
  r.target = target;
  r.extents = g[value].extents;
  return r;
}

/// An op that is computed where it is read, unless it is stored for another reason. Provides all except value().
template <class Op>
struct inlined {
  static constexpr bool stored = false;
  static void roots(const ir::graph& g, node_id id, series<root>& out) { out.push_back(whole(g, id, id)); }
  static void place(lowering& l, const root& r) { l.place_aligned(r); }
  static int root_value(lowering& l, node_id id, const coordinates& at, coordinates&) { return Op::value(l, id, at); }
};

/// A view, which is read through its coordinates. Provides all except through().
template <class Op>
struct view : inlined<Op> {
  static int value(lowering& l, node_id id, const coordinates& at) {
    return l.value_at(l.graph()[id].in[0], Op::through(l, id, at, l.axes()));
  }
};

/// An op that is always in memory; readers load it.
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
