// tests/plan/graphs.hpp: small graphs by hand, lowered, scheduled or fused.
#pragma once

#include <doctest/doctest.h>

#include <sinter/emit/writer.hpp>
#include <sinter/ir/define.hpp>
#include <sinter/ir/value.hpp>
#include <sinter/plan/memory.hpp>
#include <string>
#include <vector>

namespace graphs {

using namespace sinter::engine::plan;
using sinter::dtype;
using sinter::ir::graph;
using sinter::ir::op;
using sinter::ir::shape;
using sinter::ir::value;

inline value input(graph& g, shape s, dtype t = dtype::f32) { return {g, g.add_input(t, std::move(s))}; }

/// Only the inputs are in memory, row-major.
inline memory_map inputs_only(const graph& g) {
  memory_map m;
  m.stored.assign(g.size(), 0);
  m.strides.resize(g.size());
  for (auto id : g.inputs) m.stored[id] = 1;
  return m;
}

/// The root that computes all of `v`.
inline root whole(const value& v) {
  root r;
  r.value = r.target = v.id();
  const auto& n = v.get();
  r.extents = n.code == op::reduce || n.code == op::arg_reduce ? v.owner()[n.in[0]].extents : n.extents;
  return r;
}

inline kernel lowered(const value& v, memory_map m) {
  const std::vector<root> roots{whole(v)};
  m.stored.resize(v.owner().size());
  m.strides.resize(v.owner().size());
  return lower(v.owner(), roots, m);
}
inline kernel lowered(const value& v) { return lowered(v, inputs_only(v.owner())); }

inline kernel lowered(std::initializer_list<value> roots) {
  std::vector<root> all;
  for (const auto& v : roots) all.push_back(whole(v));
  return lower(roots.begin()->owner(), all, inputs_only(roots.begin()->owner()));
}

inline kernel scheduled(std::initializer_list<value> roots, std::vector<std::int64_t> hints = {}) {
  std::vector<root> all;
  for (const auto& v : roots) all.push_back(whole(v));
  memory_map m = inputs_only(roots.begin()->owner());
  m.hints = hints;
  kernel k = lower(roots.begin()->owner(), all, m);
  schedule(k, hints);
  return k;
}

inline fused fuse_to(std::initializer_list<value> outputs, std::vector<std::int64_t> hints = {}) {
  graph& g = outputs.begin()->owner();
  for (const auto& v : outputs) g.outputs.push_back(v.id());
  memory_map m;
  m.strides.resize(g.size());
  m.hints = std::move(hints);
  return fuse(g, m, {}, true);
}

inline std::string text(const affine& at) {
  return sinter::engine::emit::index_text(at, [](std::size_t) { return true; });
}

/// Index maps of the loads, in order, joined by "; ".
inline std::string loads(const kernel& k) {
  std::string out;
  for (const auto& i : k.body)
    if (i.kind == kind::load) out += (out.empty() ? "" : "; ") + text(i.at.at);
  return out;
}

inline std::string extents(const kernel& k) {
  shape s;
  for (const auto& a : k.axes) s.push_back(a.extent);
  return sinter::ir::text_of(s);
}

/// One letter a role, in loop order: "oi".
inline std::string roles(const kernel& k) {
  std::string out;
  for (const auto& a : k.axes) out += a.role == role::outer ? 'o' : a.role == role::row ? 'r' : 'i';
  return out;
}

/// The refusal of f, or an empty one.
template <class F>
refusal refused(F&& f) {
  try {
    f();
  } catch (const refusal& no) {
    return no;
  }
  return {};
}

inline value sum(const value& x, std::vector<std::int64_t> axes) { return reduce(x, op::add, std::move(axes)); }

/// x's last axis reduced, broadcast back.
inline value along_rows(const value& x, op combiner) {
  const auto last = static_cast<std::int64_t>(x.rank()) - 1;
  return expand(reduce(x, combiner, {last}), {last}, x.extents());
}

inline value softmax(const value& x) {
  const value e = exp(x - along_rows(x, op::maximum));
  return e / along_rows(e, op::add);
}

inline value layer_norm(const value& x, const value& gain, const value& bias) {
  const double n = static_cast<double>(*x.extents().back().number());
  const value centred = x - along_rows(x, op::add) * (1 / n);
  const value variance = along_rows(centred * centred, op::add) * (1 / n);
  const value normal = centred * rsqrt(variance + 1e-5);
  return normal * expand(gain, {0}, x.extents()) + expand(bias, {0}, x.extents());
}

}  // namespace graphs
