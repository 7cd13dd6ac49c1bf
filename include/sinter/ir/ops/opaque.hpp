// ir/ops/opaque.hpp: opaque (x…), a token: attr.step; ints = {turn among graph::effects} if it has an effect, else {}.
// graph.hpp describes steps, autodiff/opaque.hpp their derivatives.
#pragma once

#include "../push_opaque.hpp"
#include "record.hpp"

namespace sinter::ir::ops {

struct opaque_op : handled_by_walks {
  static void infer(inference& f) { detail::infer_opaque(f.g, f.n); }
  static std::string text(const node& n) { return " " + n.attr.step->head; }
};

}  // namespace sinter::ir::ops
