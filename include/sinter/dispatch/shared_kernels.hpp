// dispatch/shared_kernels.hpp: kernels shared by specialisations that differ only in floating C++ numbers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "../base/callback.hpp"
#include "../base/series.hpp"
#include "../engine/engine.hpp"
#include "function_state.hpp"
#include "raise_numbers.hpp"
#include "specialisation.hpp"

namespace sinter::engine::detail {

/// A trace as a graph whose floating constants may be arguments.
struct numbered {
  numbered() = default;
  numbered(const traced& t, const call& c, const options& how)
      : graph(raise_constants(t.graph->graph)),
        structure(structure_key(graph, c.tensors, t.graph->assumed.layout, how, c.where, constants)) {}

  ir::graph graph;
  series<ir::node_id> constants;
  std::string structure;
};

/// The family of a first trace, before its kernels are made.
inline std::shared_ptr<constant_family> new_family(const numbered& n, const traced& t) {
  auto family = make_on_heap<constant_family>();
  family->structure = n.structure;
  family->open = t.graph->assumed.open.size();
  family->constants = varying(n.graph, n.constants);
  return family;
}

/// Makes the kernels of one call.
struct kernel_maker {
  const options& how;
  function_state& held;
  std::shared_ptr<void>& shared;

  /// Makes kernels that take the varying constants of a family as arguments: at once, in the background with the interpreter
  /// meanwhile, or, with `then`, only in the background.
  void share(constant_family& family, const numbered& n, const traced& t, const call& c, tier when,
             std::function<void(function_state&)> then = {}) const {
    opened_numbers numbers(n.graph, family.constants.of(n.constants), t.graph->captures.size(), c.tensors);
    const auto open = make_on_heap<tracer>(*t.graph);
    open->graph = std::move(numbers.graph);
    const auto kernels = make_on_heap<shared_kernels>(t.graph->captures);
    kernels->constants = family.constants;
    const bool later = when == tier::background || then;
    if (!then) {
      options now = how;
      if (later) now.backend = interpreter;
      kernels->serve(build(make_on_heap<tracer>(*open), numbers.inputs, now, c.where, &shared));
      then = [](function_state& h) { h.has_grown(nullptr); };
    }
    family.kernels = kernels;
    if (later)
      held.builds.start(*open, numbers.inputs, c.where, how,
                        [kernels, then, self = held.self()](std::shared_ptr<const program> p) {
                          kernels->serve(std::move(p));
                          if (const auto h = self.lock()) then(*h);
                        });
  }
};

/// Makes the specialisation run its family's kernels with the constants of its own graph.
inline void serve_family(specialisation& made, const numbered& n) {
  made.shared = made.family->kernels;
  made.serve(make_on_heap<supplied_program>(made.family->kernels,
                                            constant_values(n.graph, made.family->constants.of(n.constants))));
}

}  // namespace sinter::engine::detail
