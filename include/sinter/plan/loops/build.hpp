// plan/loops/build.hpp: a kernel's tree from its schedule: the steps, then the passes.
#pragma once

#include "apply.hpp"
#include "check.hpp"
#include "ranges.hpp"
#include "skew.hpp"
#include "staging.hpp"
#include "tails.hpp"
#include "waits.hpp"

namespace sinter::engine::plan::loops {

/// The tree of `k`, which must outlive it. Throws refusal where the schedule is not legal, or exceeds the target's memory.
inline tree build(const kernel& k, const schedules::schedule& s, const schedules::facts& f = {}) {
  detail::plan_of_loops p(k);
  for (const auto& step : s.steps) std::visit([&](const auto& one) { p.apply(one); }, step);
  tree t = detail::tree_maker(p).run();
  place_tails(t);
  place_ranges(t);
  for (const auto& step : s.steps)
    if (const auto* one = std::get_if<schedules::skew>(&step)) place_skew(t, *one);
  place_copies(t);
  place_barriers(t);
  if (std::string why = check(t, f); !why.empty()) throw refusal{std::move(why), ir::no_node};
  return t;
}

}  // namespace sinter::engine::plan::loops
