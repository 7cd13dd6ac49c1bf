// ir/ops/input.hpp: input, operand k of the program for inputs[k]: attr.type, attr.dims, ints = {k}.
#pragma once

#include "record.hpp"

namespace sinter::ir::ops {

struct input_op : handled_by_walks {
  static void infer(inference& f) {
    f.expect(0, 1, f.n.attr.dims.size());
    f.n.type = f.n.attr.type;
    f.n.extents = f.n.attr.dims;
  }
  static std::string text(const node& n) { return " " + std::to_string(n.attr.ints.at(0)); }
  static void read(words& w, node& n) {
    w.expect(" ");
    n.attr.type = n.type;
    n.attr.dims = n.extents;
    n.attr.ints = {w.integer()};
  }
};

}  // namespace sinter::ir::ops
