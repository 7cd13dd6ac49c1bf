// ir/ops/pick.hpp: pick (opaque), result k of the opaque node: ints = {k}.
#pragma once

#include "../push_opaque.hpp"
#include "record.hpp"

namespace sinter::ir::ops {

struct pick_op : handled_by_walks {
  static void infer(inference& f) { detail::infer_pick(f.g, f.n); }
  static std::string text(const node& n) { return " " + std::to_string(n.attr.ints.at(0)); }
  static void read(words& w, node& n) {
    w.expect(" ");
    n.attr.ints = {w.integer()};
  }
};

}  // namespace sinter::ir::ops
