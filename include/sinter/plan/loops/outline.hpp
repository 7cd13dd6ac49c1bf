// plan/loops/outline.hpp: the schedule and the tree that a recipe makes of a kernel, as text: for logs and explain().
#pragma once

#include "../schedule/recipes.hpp"
#include "build.hpp"
#include "print.hpp"

namespace sinter::engine::plan::loops {

/// The texts of a kernel's loops; both are empty if no recipe takes the kernel.
struct outline {
  std::string schedule;  ///< a line a step, behind the recipe's name
  std::string tree;      ///< a line a tile and a statement, or the sentence that refuses the schedule
};

/// The loops of an option of the recipe that takes `c`, for a target: the kernel's, or the first.
SINTER_API outline outline_of(const kernel& c, const schedules::facts& f) {
  if (c.is_opaque()) return {};
  const kernel k = as_reduction(c);
  const schedules::recipe* r = schedules::recipe_for(k, f);
  if (!r) return {};
  outline out;
  try {
    const schedules::schedule s = r->make(k, f, k.option > 0 && k.option < r->options ? k.option : 0);
    out.schedule = text_of(s);
    out.tree = text_of(build(k, s));
  } catch (const refusal& no) {
    out.tree = "refused: " + no.why + "\n";
  }
  return out;
}

}  // namespace sinter::engine::plan::loops
