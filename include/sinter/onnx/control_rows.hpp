// onnx/control_rows.hpp: operators of graphs within: If.
#pragma once

#include "importer.hpp"

namespace sinter::onnx::rows {

/// The branch that a condition known now, or read, names.
inline void if_(call& c) {
  const host_values& h = c.host(0);
  const bool yes = !h.ints.empty() && h.ints[0].bits != 0;
  const auto* a = c.attribute(yes ? "then_branch" : "else_branch");
  if (!a || !a->g) c.refuse("it lacks a branch");
  c.out = c.im.run(*a->g, &c.at, {});
}

inline const row controls[] = {
    {"If", "", 1, if_, "the branch of a condition that is known or read"},
};

}  // namespace sinter::onnx::rows
