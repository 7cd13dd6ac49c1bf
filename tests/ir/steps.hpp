// tests/ir/steps.hpp: opaque nodes for tests, from functions on values.
#pragma once

#include <algorithm>
#include <ctime>
#include <functional>
#include <memory>
#include <sinter/ir/define.hpp>
#include <sinter/ir/value.hpp>
#include <utility>
#include <vector>

namespace steps {

using sinter::ir::graph;
using sinter::ir::node_id;
using sinter::ir::opaque;
using sinter::ir::opaque_kind;
using sinter::ir::shape;
using sinter::ir::value;
using values = std::vector<value>;
using part = std::function<values(const values&)>;

inline void finish(graph& g, const values& outputs) {
  for (const auto& v : outputs) g.outputs.push_back(v.id());
}

inline values push(const values& operands, opaque step, sinter::location where = {}) {
  sinter::series<node_id> in;
  for (const auto& v : operands) in.push_back(v.id());
  graph& g = operands[0].owner();
  values out;
  for (auto id : sinter::ir::push_opaque(g, sinter::ir::seal(std::move(step)), in, where))
    out.push_back({g, id, where});
  return out;
}

/// How many times as long something takes for `times` as many steps: the least of three tries, any of which may be disturbed.
inline double growth(const std::function<void(int count)>& run, int count, int times) {
  const auto seconds = [&](int n) {
    const std::clock_t began = std::clock();
    run(n);
    return static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  };
  double least = 0;
  for (int i = 0; i < 3; ++i) {
    const double ratio = seconds(count * times) / std::max(seconds(count), 1e-3);
    least = i == 0 ? ratio : std::min(least, ratio);
  }
  return least;
}

/// operands: the predicate, then what both branches take.
inline values cond(const values& operands, const part& yes, const part& no) {
  opaque s;
  for (const auto* branch : {&yes, &no}) {
    graph g;
    values in;
    for (std::size_t k = 1; k < operands.size(); ++k)
      in.push_back({g, g.add_input(operands[k].type(), operands[k].extents())});
    finish(g, (*branch)(in));
    s.parts.push_back(std::move(g));
  }
  return push(operands, std::move(s));
}

/// body(index, carried, slices, constants) gives what is carried and stacked.
inline values loop(std::int64_t length, const values& init, const values& xs, const values& constants,
                   const std::function<values(value, values, values, values)>& body, bool reverse = false) {
  opaque s;
  s.kind = opaque_kind::loop;
  s.length = length;
  s.reverse = reverse;
  s.carried = init.size();
  s.sliced = xs.size();
  s.constants = constants.size();
  graph g;
  const value index(g, g.add_input(sinter::dtype::i64, {}));
  values operands, groups[3];
  const values* from[] = {&init, &xs, &constants};
  for (int k = 0; k < 3; ++k)
    for (const auto& v : *from[k]) {
      const shape& e = v.extents();
      groups[k].push_back({g, g.add_input(v.type(), k == 1 ? shape(e.begin() + 1, e.end()) : e)});
      operands.push_back(v);
    }
  const values out = body(index, groups[0], groups[1], groups[2]);
  s.stacked = out.size() - init.size();
  finish(g, out);
  s.parts.push_back(std::move(g));
  return push(operands, std::move(s));
}

/// A part of its own, with rules, or computed anew by its derivative.
inline values call(const values& operands, const part& body, sinter::ir::recompute again = {},
                   std::shared_ptr<const sinter::ir::foreign> rules = nullptr, bool stays = false) {
  opaque s;
  s.kind = opaque_kind::call;
  s.again = again;
  s.stays = stays;
  s.function = std::move(rules);
  graph g;
  values in;
  for (const auto& v : operands) in.push_back({g, g.add_input(v.type(), v.extents())});
  finish(g, body(in));
  s.parts.push_back(std::move(g));
  return push(operands, std::move(s), {"user.cpp", 9});
}

inline values while_loop(const values& init, const part& test, const part& body) {
  opaque s;
  s.kind = opaque_kind::while_loop;
  s.carried = init.size();
  for (const auto* f : {&test, &body}) {
    graph g;
    values in;
    for (const auto& v : init) in.push_back({g, g.add_input(v.type(), v.extents())});
    finish(g, (*f)(in));
    s.parts.push_back(std::move(g));
  }
  return push(init, std::move(s));
}

/// So many branches and as many loops, each of a part of one array.
inline graph many(int count) {
  graph g;
  const value x(g, g.add_input(sinter::dtype::f64, {8 * count}));
  for (int i = 0; i < count; ++i) {
    const value p = sinter::ir::slice(x, {8}, {8 * i}, {1});
    const value none(g, g.constant(sinter::dtype::f64, 0.0, {})), all = reduce(p, sinter::ir::op::add, {0});
    const value positive(g, g.push(sinter::ir::op::lt, {none.id(), all.id()}));
    finish(g, cond(
                  {positive, p}, [](const values& in) { return values{sin(in[0])}; },
                  [](const values& in) { return values{cos(in[0])}; }));
    const auto taken = loop(2, {sinter::ir::slice(p, {4}, {0}, {1})}, {reshape(p, {2, 4})}, {},
                            [](const value&, const values& c, const values& rows, const values&) {
                              const value next = sin(c[0] + rows[0]);
                              return values{next, next};
                            });
    g.outputs.push_back(taken[1].id());
  }
  return g;
}

}  // namespace steps
