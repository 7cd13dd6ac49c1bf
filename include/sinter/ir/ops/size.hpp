// ir/ops/size.hpp: size, a rank-0 i64: attr.dims = {value}.
#pragma once

#include "elements.hpp"

namespace sinter::ir::ops {

struct size_op : without_derivative, without_lanes, without_rounding {
  static void infer(inference& f) {
    f.expect(0, 0, 1);
    f.n.type = dtype::i64;
  }
  static std::string text(const node& n) { return " " + n.attr.dims.at(0).text(); }
  static void read(words& w, node& n) {
    w.expect(" ");
    n.attr.dims = {w.size()};
  }
  static void reference(const evaluation& e, literal_array& out) { fill(out, {0, e.bound(0)}); }
};

}  // namespace sinter::ir::ops
