// trace/nested.hpp: traces within a trace: values of the outer trace that a branch or a loop's body reads become operands.
#pragma once

#include <utility>

#include "../base/series.hpp"
#include "../base/shape_errors.hpp"
#include "../engine/engine.hpp"

namespace sinter::engine {

namespace detail {

/// The input that stands for a node of the outer trace.
inline ir::node_id stand_in(tracer& t, ir::node_id around, location where) {
  const ir::node& n = t.outer->graph[around];
  if (n.code == ir::op::constant) return ir::push_constant_like(t.graph, n, n.extents);
  const std::size_t first = t.graph.inputs.size() - t.imported.size();
  for (std::size_t k = 0; k < t.imported.size(); ++k)
    if (t.imported[k] == around) return t.graph.inputs[first + k];
  t.imported.push_back(around);
  return t.graph.add_input(n.type, n.extents, where);
}

/// Gives two parts the same imports.
inline void share_imports(tracer& a, tracer& b, location where) {
  for (std::size_t k = 0; k < a.imported.size(); ++k) stand_in(b, a.imported[k], where);
  for (std::size_t k = 0; k < b.imported.size(); ++k) stand_in(a, b.imported[k], where);
  // b's imports are in its own order; a's order counts.
  series<ir::node_id> inputs(b.graph.inputs);
  const std::size_t first = inputs.size() - b.imported.size();
  for (std::size_t k = 0; k < a.imported.size(); ++k)
    for (std::size_t j = 0; j < b.imported.size(); ++j)
      if (b.imported[j] == a.imported[k]) inputs[first + k] = b.graph.inputs[first + j];
  b.graph.order_inputs(std::move(inputs));
  b.imported = a.imported;
}

}  // namespace detail

SINTER_API ir::node_id tracer::adopt(const tracer* of, ir::node_id x, location at) {
  if (of == this) return x;
  if (!outer) fail_out_of_trace(*of, at);
  return detail::stand_in(*this, outer->adopt(of, x, at), at);
}

SINTER_API std::shared_ptr<tracer> make_inner_tracer() {
  auto t = make_tracer();
  if (const auto& around = current()) {
    t->outer = around;
    t->where = around->where;
    t->numbers_by_value = around->numbers_by_value;
    t->in_lanes = around->in_lanes;
  }
  return t;
}

SINTER_API series<ir::node_id> push_cond(tracer& t, ir::node_id predicate, tracer& yes, tracer& no, location where) {
  detail::share_imports(yes, no, where);
  series<ir::node_id> in{predicate};
  in.insert(in.end(), yes.imported.begin(), yes.imported.end());
  ir::opaque step;
  step.parts.push_back(yes.graph);
  step.parts.push_back(no.graph);
  return ir::push_opaque(t.graph, ir::seal(std::move(step)), std::move(in), where);
}

SINTER_API series<ir::node_id> push_loop(tracer& t, tracer& body, std::size_t carried, series<ir::node_id> operands,
                                         ir::dim length, location where, bool reverse) {
  ir::opaque step;
  step.kind = ir::opaque_kind::loop;
  step.length = length;
  step.reverse = reverse;
  step.carried = carried;
  step.sliced = operands.size() - carried;
  step.constants = body.imported.size();
  step.stacked = body.graph.outputs.size() - carried;
  operands.insert(operands.end(), body.imported.begin(), body.imported.end());
  const std::size_t results = carried + step.stacked;
  step.parts.push_back(body.graph);
  auto out = ir::push_opaque(t.graph, ir::seal(std::move(step)), std::move(operands), where);
  out.resize(results);
  return out;
}

SINTER_API series<ir::node_id> push_while(tracer& t, tracer& test, tracer& body, series<ir::node_id> init,
                                          location where) {
  detail::share_imports(test, body, where);
  ir::opaque step;
  step.kind = ir::opaque_kind::while_loop;
  step.carried = init.size();
  step.constants = test.imported.size();
  init.insert(init.end(), test.imported.begin(), test.imported.end());
  step.parts.push_back(test.graph);
  step.parts.push_back(body.graph);
  return ir::push_opaque(t.graph, ir::seal(std::move(step)), std::move(init), where);
}

SINTER_API series<ir::node_id> push_call(tracer& t, tracer& body, std::shared_ptr<const ir::foreign> rules,
                                         ir::recompute again, series<ir::node_id> operands, location where) {
  ir::opaque step;
  step.kind = ir::opaque_kind::call;
  step.function = std::move(rules);
  step.again = again;
  step.constants = body.imported.size();
  operands.insert(operands.end(), body.imported.begin(), body.imported.end());
  step.parts.push_back(body.graph);
  return ir::push_opaque(t.graph, ir::seal(std::move(step)), std::move(operands), where);
}

SINTER_API series<ir::node_id> push_foreign(tracer& t, std::shared_ptr<const ir::foreign> function, bool has_effect,
                                            series<ir::node_id> operands, series<ir::result_type> results,
                                            location where) {
  keep_loaded(function->host ? function->host.code() : function->gpu.launch.code());
  ir::opaque step;
  step.kind = has_effect ? ir::opaque_kind::host_call : ir::opaque_kind::custom;
  step.function = std::move(function);
  step.results = std::move(results);
  return ir::push_opaque(t.graph, ir::seal(std::move(step)), std::move(operands), where);
}

}  // namespace sinter::engine
