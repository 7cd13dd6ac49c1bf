// front/evaluate/handle_rules.hpp: runs ops on handles: by a loop, on a GPU, or as nodes; compiled once.
#pragma once

#include <algorithm>

#include "handle.hpp"

namespace sinter::detail {

/// A handle's elements as the engine's functions take them.
inline engine::operand operand_of(const handle& x) {
  engine::operand a;
  a.data = x.data;
  a.owner = &x.memory;
  a.type = x.type;
  a.rank = x.extents.rank;
  a.extents = as_numbers(x.extents.extent);
  a.strides = as_numbers(x.strides.extent);
  return a;
}

SINTER_API handle untyped_tensor(expression_view e, location at) {
  operand_facts x;
  e.terms->read(e.expression, x);
  if (!*x.traced && !*x.memory) fail_undefined("tensor", at, donated_to(x.data, x.marks));
  handle h;
  h.type = e.terms->type;
  for (int i = 0; i < e.terms->rank; ++i) {
    h.extents.push(x.extents[i]);
    h.strides.push(x.strides[i]);
  }
  if (!*x.traced) {
    x.memory->wait();
    h.memory = *x.memory;
    h.data = static_cast<std::byte*>(x.data);
    return h;
  }
  h.tracer = x.traced->tracer();
  const auto& t = engine::current();
  if (h.tracer == t) {
    h.node = engine::node_of(**x.traced);
    return h;
  }
  if (!t) check_tracer(h.tracer.get(), nullptr, at);
  h.node = push(*t, e, at);
  h.tracer = t;
  h.strides = row_major_strides(h.extents);
  return h;
}

SINTER_API handle untyped_values(const row_stage& s, const void* expression, location at) {
  handle h;
  h.type = s.terms->type;
  h.extents = h.strides = dims(int{s.terms->rank});
  trace_handle traced;
  const tensor_parts parts{&h.memory, h.extents.extent, h.strides.extent, &traced};
  h.data = static_cast<std::byte*>(stage_point(s, expression, {}, at, parts));
  if (traced) {
    h.tracer = traced.tracer();
    h.node = engine::node_of(*traced);
  }
  return h;
}

SINTER_API void* put_handle(handle&& h, dtype type, const dims& shape, const tensor_parts& out, location at) {
  ensure(h.type == type && fits(shape, h.extents), "an op gives the dtype and extents that its rule promises", at);
  std::copy_n(h.extents.extent, shape.rank, out.extents);
  if (h.tracer) {
    put_strides(out.extents, out.strides, shape.rank);
    *out.traced = trace_handle(std::move(h.tracer), h.node);
    return nullptr;
  }
  std::copy_n(h.strides.extent, shape.rank, out.strides);
  *out.memory = std::move(h.memory);
  return h.data;
}

SINTER_API ir::node_id node_of(const handle& x, location at) {
  if (x.tracer) return x.node;
  return capture(*engine::current(), x.memory, x.data, x.type, x.extents.rank, x.extents.extent, x.strides.extent, at);
}

SINTER_API handle of_node(ir::node_id id) {
  handle h;
  h.tracer = engine::current();
  h.node = id;
  const auto& n = h.tracer->graph[id];
  h.type = n.type;
  for (const auto& e : n.extents) h.extents.push(engine::from_ir(e));
  h.strides = row_major_strides(h.extents);
  return h;
}

SINTER_API void put_input(const std::shared_ptr<engine::tracer>& tracer, dtype type, const dims& shape,
                          const dim* extents, const tensor_parts& out, location where) {
  std::copy_n(extents, shape.rank, out.extents);
  tracer->input_extents(static_cast<int>(tracer->graph.inputs.size()), out.extents, shape.rank);
  dims own;
  for (int i = 0; i < shape.rank; ++i) own.push(out.extents[i]);
  if (!fits(shape, own)) fail_static_shape("trace", shape, own, where);
  const ir::node_id node = tracer->graph.add_input(type, engine::to_ir(out.extents, shape.rank), where);
  put_strides(out.extents, out.strides, shape.rank);
  *out.traced = trace_handle(tracer, node);
}

SINTER_API handle push_op(ir::op code, std::initializer_list<handle> in, ir::attributes attr, location at) {
  std::vector<ir::node_id> ids;
  for (const auto& x : in) ids.push_back(node_of(x, at));
  return of_node(engine::current()->graph.push(code, ids, std::move(attr), at));
}

SINTER_API handle allocate(const char* op, dtype type, const dims& extents, location at) {
  handle h;
  h.type = type;
  h.extents = extents;
  h.strides = row_major_strides(extents);
  h.memory = new_memory(op, extents, size_of(type), at);
  h.data = static_cast<std::byte*>(h.memory.data());
  return h;
}

SINTER_API void copy_elements(const handle& to, const handle& from) {
  copy_elements(to.data, to.strides, from.data, from.strides, to.extents, to.item_bytes());
}

SINTER_API handle contiguous(const handle& x, location at) {
  if (on_gpu("contiguous", {&x}, at))
    return launch(
        "contiguous", {&x}, {}, [&] { return x; }, at);
  handle c = allocate("contiguous", x.type, x.extents, at);
  copy_elements(c, x);
  return c;
}

SINTER_API handle launch_as(const char* op, const void* signature, std::span<const handle* const> operands,
                            std::span<const std::int64_t> facts, engine::pushing trace, location at) {
  std::vector<engine::operand> all;
  for (const handle* x : operands) all.push_back(operand_of(*x));
  const operand_list list{all.data(), static_cast<int>(all.size()), true};
  engine::output out = run_stage_as(op, signature, list, facts, device_of(list, {}), at, trace);
  handle h;
  h.type = out.type;
  for (int i = 0; i < out.rank; ++i) h.extents.push(out.extents[i]);
  h.strides = row_major_strides(h.extents);
  h.memory = std::move(out.memory);
  h.data = static_cast<std::byte*>(h.memory.data());
  return h;
}

SINTER_API bool on_gpu(const char* op, std::span<const handle* const> operands, location at) {
  const handle* first = nullptr;
  for (const handle* x : operands) {
    if (x->tracer || !x->memory || (x->extents.rank == 0 && !x->memory.where().is_cuda())) continue;
    if (!first) first = x;
    else if (!(first->memory.where() == x->memory.where()))
      fail_devices(op, first->extents, first->memory.where(), x->extents, x->memory.where(), at);
  }
  return first && first->memory.where().is_cuda();
}

SINTER_API handle sum_squares(const handle& x, std::span<const int> axes, location at) {
  if (!tracing()) {
    const series<std::int64_t> facts(axes.begin(), axes.end());
    const handle* const operands[] = {&x};
    return launch(
        "norm", operands, {facts.data(), facts.size()}, [&] { return sum_squares(x, axes, at); }, at);
  }
  ir::attributes attr;
  for (const int a : axes) attr.ints.push_back(a);
  return push_op(ir::op::sum_squares, {x}, std::move(attr), at);
}

SINTER_API handle push_arg_reduce(ir::op combiner, const handle& x, int axis, location at) {
  ir::attributes attr;
  attr.ints = {axis};
  attr.combiner = combiner;
  return push_op(ir::op::arg_reduce, {x}, std::move(attr), at);
}

SINTER_API handle push_scan(ir::op combiner, const handle& x, int axis, location at) {
  ir::attributes attr;
  attr.ints = {axis, 0};
  attr.combiner = combiner;
  return push_op(ir::op::scan, {x}, std::move(attr), at);
}

SINTER_API handle push_cast(const handle& x, dtype type, location at) {
  ir::attributes attr;
  attr.type = type;
  return push_op(ir::op::cast, {x}, std::move(attr), at);
}

SINTER_API handle rounded(const handle& x, dtype to, location at) {
  if (tracing()) return push_cast(push_cast(x, to, at), dtype::f32, at);
  if (on_gpu("autocast", {&x}, at))
    return launch(
        "autocast", {&x}, {static_cast<std::int64_t>(to)}, [&] { return rounded(x, to, at); }, at);
  const handle out = contiguous(x, at);
  auto* const p = reinterpret_cast<float*>(out.data);
  const std::int64_t n = out.extents.numel();
  const bool brain = to == dtype::bf16;
  parallel(n, n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      p[i] = brain ? static_cast<float>(bf16(p[i])) : static_cast<float>(f16(p[i]));
  });
  return out;
}

}  // namespace sinter::detail
