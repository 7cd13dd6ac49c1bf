// plan/lowering/ops/table.hpp: the lowerings by op, and the roots that they store.
#pragma once

#include "arg_reduce.hpp"
#include "argsort.hpp"
#include "attention.hpp"
#include "broadcast.hpp"
#include "collective.hpp"
#include "concat.hpp"
#include "constant.hpp"
#include "dot.hpp"
#include "gather.hpp"
#include "iota.hpp"
#include "opaque.hpp"
#include "pad.hpp"
#include "permute.hpp"
#include "pointwise.hpp"
#include "reduce.hpp"
#include "reshape.hpp"
#include "scan.hpp"
#include "scatter.hpp"
#include "scatter_add.hpp"
#include "searchsorted.hpp"
#include "size.hpp"
#include "slice.hpp"
#include "sum_squares.hpp"
#include "window.hpp"

namespace sinter::engine::plan {

namespace detail {

template <class Op>
concept is_view_lowering = requires(lowering& l, node_id id, const coordinates& at, const series<dim>& axes) {
  Op::through(l, id, at, axes);
};

template <class Op>
concept is_of_parts = requires(const ir::graph& g, node_id id, const coordinates& at) {
  Op::parts(g, id, at, std::size_t{});
};

template <class Op, bool View>
constexpr op_lowering make_lowering() {
  static_assert(View == is_view_lowering<Op>, "a view in ops.def has a lowering with through(), and only a view");
  op_lowering row{Op::stored, Op::roots, Op::place, Op::root_value, Op::value, nullptr, nullptr};
  if constexpr (View) row.through = Op::through;
  if constexpr (is_of_parts<Op>) row.parts = Op::parts;
  return row;
}

inline constexpr op_lowering pointwise_lowering = make_lowering<ops::pointwise_op, false>();
inline constexpr op_lowering lowerings[] = {
#define SINTER_STRUCTURAL(name, view) make_lowering<ops::name##_op, view>(),
#include "../../../ir/ops.def"
};

}  // namespace detail

SINTER_API const op_lowering& lowering_of(ir::op code) {
  if (ir::is_pointwise(code)) return detail::pointwise_lowering;
  return detail::lowerings[static_cast<int>(code) - ir::pointwise_count];
}

/// Appends the roots whose computation puts node `id` into memory.
SINTER_API void append_roots(const ir::graph& g, node_id id, series<root>& out) {
  lowering_of(g[id].code).roots(g, id, out);
}

}  // namespace sinter::engine::plan
