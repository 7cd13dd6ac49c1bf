// trace/traces.hpp: makes and enters tracers, and the inputs of their segments.
#pragma once

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <utility>

#include "../base/callback.hpp"
#include "../base/series.hpp"
#include "../base/shape_errors.hpp"
#include "../engine/engine.hpp"
#include "size_space.hpp"
#include "sizes.hpp"

#include "../base/engine_begin.hpp"

namespace sinter::engine {

SINTER_API traced::traced() = default;
SINTER_API traced::traced(const traced&) = default;
SINTER_API traced::traced(traced&&) noexcept = default;
SINTER_API traced& traced::operator=(const traced&) = default;
SINTER_API traced& traced::operator=(traced&&) noexcept = default;
SINTER_API traced::~traced() = default;

SINTER_API double milliseconds_now() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
SINTER_API trace_times tracer::spent_until_now() const {
  return {milliseconds_now() - began - spent.autodiff, spent.autodiff};
}

SINTER_API std::shared_ptr<tracer> make_tracer() {
  auto t = make_on_heap<tracer>();
  t->began = milliseconds_now();
  if (current()) t->sizes = current()->sizes;
  watch_sizes(t);
  return t;
}
SINTER_API std::shared_ptr<tracer> make_tracer(const trace_target& to) {
  auto t = make_tracer();
  t->where = to.on;
  t->memory_budget = to.memory_budget;
  t->backend = to.backend;
  if (to.request) t->request = *to.request;
  t->open_sizes();
  watch_sizes(t);
  if (!to.how || !t->request.may_read) return t;
  t->call = make_on_heap<live_call>();
  t->call->how = to.how;
  t->call->held = to.held;
  t->call->signature = to.signature;
  t->call->where = to.where;
  if (to.request) t->call->beyond = to.request->beyond;
  t->call->arguments = {to.arguments.begin(), to.arguments.end()};
  t->call->fullgraph = to.how->fullgraph;
  t->call->answers = to.answer;
  t->call->whole = to.whole;
  t->checks_indices = to.whole && !to.on.is_cuda();
  if (to.answer) stay(*t);
  return t;
}
SINTER_API live_scope::~live_scope() {
  t_.call.reset();
  t_.request.on_read = nullptr;
  // A failed trace drops its graph, whose rules may have captured the trace's values and so keep it alive.
  if (std::uncaught_exceptions() > 0 && t_.graph.outputs.empty() && t_.graph.effects.empty())
    const ir::graph dropped = std::exchange(t_.graph, {});
}

SINTER_API tracing_scope::tracing_scope(std::shared_ptr<tracer> t) : previous_(std::exchange(current(), std::move(t))) {
  reads_count = current() && current()->call;
  sinter::detail::current_sizes() = current() ? current()->sizes.get() : nullptr;
  if (current()) thread_ = current()->thread.at.exchange(&reads_count);
}
SINTER_API tracing_scope::~tracing_scope() {
  if (current()) current()->thread.at.store(thread_);
  current() = std::move(previous_);
  reads_count = current() && current()->call;
  sinter::detail::current_sizes() = current() ? current()->sizes.get() : nullptr;
}

SINTER_API void fail_out_of_trace(const tracer& of, location at) {
  using sinter::detail::out_of_trace;
  const void* const there = of.thread.at.load();
  sinter::detail::fail_out_of_trace(current()               ? out_of_trace::another
                                    : !there                ? out_of_trace::ended
                                    : there == &reads_count ? out_of_trace::untraced
                                                            : out_of_trace::thread,
                                    at);
}

SINTER_API void tracer::start_segment() {
  graph = ir::graph();
  captures.clear();
  capture_nodes_.clear();
  ++segment;
  constants_apart = 0;
  spent = {};
  began = milliseconds_now();
  if (!sizes) return;
  const size_layout& l = detail::space_of(*this)->layout();
  for (std::size_t i = 0; i < l.tensors.size(); ++i)
    graph.add_input(call->arguments[i].type, detail::open_extents(l, i));
}

SINTER_API ir::node_id tracer::capture(const argument& x, location at, const ir::shape& open) {
  if (outer) {
    const ir::node_id around = outer->capture(x, at, open);
    where = outer->where;
    return adopt(outer.get(), around, at);
  }
  for (std::size_t i = 0; i < captures.size(); ++i) {
    const captured& c = captures[i];
    if (c.data == x.data && c.type == x.type && c.sizes == open &&
        std::equal(c.extents.begin(), c.extents.end(), x.extents, x.extents + x.rank) &&
        std::equal(c.strides.begin(), c.strides.end(), x.strides, x.strides + x.rank))
      return capture_nodes_[i];
  }
  if (!x.by_value && !where) where = x.where();
  captures.push_back({x.owner ? *x.owner : storage(),
                      x.data,
                      x.type,
                      {x.extents, x.extents + x.rank},
                      {x.strides, x.strides + x.rank},
                      x.by_value,
                      open});
  ir::shape extents(x.extents, x.extents + x.rank);
  if (!open.empty()) extents = resolved_sizes(*this, open);
  capture_nodes_.push_back(graph.add_input(x.type, std::move(extents), at));
  return capture_nodes_.back();
}

SINTER_API void tracer::specialise(std::uint64_t which) {
  if (outer) return outermost().specialise(which);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto same = [&](const specialised& v) { return v.what == numbers[i].what; };
    if (which >> i & 1 && !std::any_of(assumed.values.begin(), assumed.values.end(), same)) specialise(numbers[i]);
  }
}
SINTER_API void tracer::specialise(const specialised& number) {
  assumed.values.push_back(number);
  has_scalars = true;
}

}  // namespace sinter::engine

#include "../base/engine_end.hpp"
