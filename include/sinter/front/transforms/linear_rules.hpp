// front/transforms/linear_rules.hpp: the residuals of pullbacks and linear functions, and how they enter a trace; compiled
// once.
#pragma once

#include "vjp.hpp"

namespace sinter::detail {

SINTER_API std::shared_ptr<const linear_state> keep_linear(const std::shared_ptr<engine::tracer>& t,
                                                           engine::linear_part part, const char* op, location where) {
  auto s = std::make_shared<linear_state>(linear_state{op, where, std::move(part.graph), {}});
  for (const auto id : part.from) s->residuals.push_back({trace_handle(t, id), {}});
  return s;
}

SINTER_API std::size_t bytes_of_nodes(const ir::graph& g, const series<ir::node_id>& nodes) {
  std::size_t all = 0;
  for (const auto id : nodes) {
    std::size_t bytes = size_of(g[id].type);
    for (const ir::dim& d : g[id].extents) bytes *= static_cast<std::size_t>(d.number().value_or(1));
    all += bytes;
  }
  return all;
}

SINTER_API std::size_t held_bytes(const linear_state& s) {
  std::size_t all = 0;
  for (const residual& r : s.residuals)
    if (!r.traced) all += static_cast<std::size_t>(r.known.extents.numel()) * size_of(r.known.type);
  return all;
}

SINTER_API std::shared_ptr<const linear_state> keep_linear(ir::graph part, std::span<const engine::captured> taken,
                                                           std::size_t all_bytes, const char* op, location where) {
  auto s = std::make_shared<linear_state>(linear_state{op, where, std::move(part), {}, all_bytes});
  for (const auto& x : taken) {
    handle h;
    h.type = x.type;
    for (const auto e : x.extents) h.extents.push(e);
    for (const auto e : x.strides) h.strides.push(e);
    h.memory = x.memory;
    h.data = static_cast<std::byte*>(x.data);
    s->residuals.push_back({{}, std::move(h)});
  }
  return s;
}

SINTER_API series<ir::node_id> push_linear(const linear_state& s, const series<ir::node_id>& given) {
  const auto& t = engine::current();
  series<ir::node_id> in;
  for (const residual& r : s.residuals) {
    if (!r.traced) {
      in.push_back(node_of(r.known, s.where));
      continue;
    }
    const auto& of = r.traced.tracer();
    if (!t->is_within(of.get())) engine::fail_out_of_trace(*of, s.where);
    in.push_back(t->adopt(of.get(), engine::node_of(*r.traced), s.where));
  }
  in.insert(in.end(), given.begin(), given.end());
  return ir::splice(t->graph, s.graph, in);
}

}  // namespace sinter::detail
