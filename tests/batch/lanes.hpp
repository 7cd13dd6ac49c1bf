// tests/batch/lanes.hpp: functions of lanes, as push_lanes() has them, against a loop over the lanes by the reference.
#pragma once

#include <functional>
#include <sinter/autodiff/jvp.hpp>
#include <sinter/batch/push_lanes.hpp>

#include "../ir/arrays.hpp"
#include "../ir/steps.hpp"

namespace lanes {

using arrays::extents_t;
using arrays::literal_array;
using sinter::dtype;
using sinter::ir::graph;
using sinter::ir::node_id;
using sinter::ir::op;
using sinter::ir::value;
using values = std::vector<value>;
/// Of one lane.
using function = std::function<values(const values&)>;

struct input {
  dtype type = dtype::f64;
  extents_t extents;
  double low = -2, high = 2;
};

inline sinter::series<node_id> ids(const values& all) {
  sinter::series<node_id> out;
  for (const auto& v : all) out.push_back(v.id());
  return out;
}

/// Which inputs vary: bit k of a number says so of input k.
inline bool varies(unsigned pattern, std::size_t k) { return pattern >> k & 1; }

inline graph of_one(const function& f, const std::vector<input>& in) {
  graph g;
  values x;
  for (const auto& i : in) x.push_back({g, g.add_input(i.type, arrays::shape(i.extents))});
  g.outputs = ids(f(x));
  sinter::ir::check(g, "lane");
  return g;
}

inline std::vector<literal_array> arguments(const std::vector<input>& in, unsigned pattern, std::int64_t count,
                                            unsigned seed = 1) {
  std::vector<literal_array> out;
  for (std::size_t k = 0; k < in.size(); ++k) {
    extents_t e = in[k].extents;
    if (varies(pattern, k)) e.insert(e.begin(), count);
    out.push_back(arrays::random(in[k].type, e, seed * 100 + static_cast<unsigned>(k), in[k].low, in[k].high));
  }
  return out;
}

inline literal_array slice(const literal_array& x, std::int64_t lane) {
  literal_array out{x.type, {x.extents.begin() + 1, x.extents.end()}, {}, {}};
  const auto n = static_cast<std::ptrdiff_t>(arrays::count({out.extents.begin(), out.extents.end()}));
  if (is_float(x.type)) out.f.assign(x.f.begin() + lane * n, x.f.begin() + (lane + 1) * n);
  else out.i.assign(x.i.begin() + lane * n, x.i.begin() + (lane + 1) * n);
  return out;
}

/// The graph of all lanes under construction: its inputs, and the lanes' results.
struct batched {
  graph g;
  values in;
  sinter::engine::lanes_result out;

  batched(const graph& lane, unsigned pattern, sinter::ir::dim count) {
    std::vector<char> flags;
    for (std::size_t k = 0; k < lane.inputs.size(); ++k) {
      const auto& n = lane[lane.inputs[k]];
      flags.push_back(varies(pattern, k));
      in.push_back({g, g.add_input(n.type, flags[k] ? sinter::ir::ops::behind(count, n.extents) : n.extents)});
    }
    out = sinter::engine::batch::push_lanes(g, lane, ids(in), flags, count, {"lanes.hpp", 1});
    g.outputs = out.nodes;
    sinter::ir::check(g, "push_lanes");
  }
  batched(const batched&) = delete;
  value result(std::size_t k) { return {g, out.nodes[k]}; }
};

/// "" when the graph of all lanes gives what a loop over them gives; what varies does so only where an input does.
inline std::string difference(const graph& lane, const batched& all, unsigned pattern, std::int64_t count,
                              const std::vector<literal_array>& given, double tolerance = 0) {
  const auto got = arrays::run(all.g, given);
  for (std::int64_t i = 0; i < std::max<std::int64_t>(count, 1); ++i) {
    std::vector<literal_array> one;
    for (std::size_t k = 0; k < given.size(); ++k) {
      if (varies(pattern, k) && count == 0) break;
      one.push_back(varies(pattern, k) ? slice(given[k], i) : given[k]);
    }
    if (one.size() < given.size()) {
      for (std::size_t k = 0; k < got.size(); ++k) {
        const auto& n = lane[lane.outputs[k]];
        extents_t e;
        if (all.out.varies[k]) e.push_back(0);
        for (const auto& d : n.extents) e.push_back(*d.number());
        if (got[k].type != n.type || !(extents_t(got[k].extents.begin(), got[k].extents.end()) == e))
          return "of no lanes, result " + std::to_string(k) + " has another dtype or shape";
      }
      continue;
    }
    const auto want = arrays::run(lane, one);
    for (std::size_t k = 0; k < got.size(); ++k) {
      if (all.out.varies[k] && pattern == 0) return "result " + std::to_string(k) + " varies, and no input does";
      const auto& mine = got[k];
      const std::string why = arrays::difference(all.out.varies[k] ? slice(mine, i) : mine, want[k], tolerance);
      if (!why.empty()) return "lane " + std::to_string(i) + ", result " + std::to_string(k) + ": " + why;
    }
  }
  return "";
}

inline value sum(const value& x) {
  std::vector<std::int64_t> axes;
  for (int a = 0; a < x.rank(); ++a) axes.push_back(a);
  return reduce(x, op::add, {axes.begin(), axes.end()});
}

/// f, and its tangents for those of the floating inputs, which come behind the inputs.
inline function with_tangents(const function& f, std::size_t inputs) {
  return [=](const values& x) {
    const values at(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(inputs));
    values wrt, along(x.begin() + static_cast<std::ptrdiff_t>(inputs), x.end()), y = f(at), from;
    for (const auto& v : at)
      if (is_float(v.type())) wrt.push_back(v);
    for (const auto& v : y)
      if (is_float(v.type())) from.push_back(v);
    graph& g = x[0].owner();
    for (auto id : sinter::engine::autodiff::jvp(g, ids(from), ids(wrt), ids(along))) y.push_back({g, id});
    return y;
  };
}

/// The cotangents of floating inputs for those of the floating results, which come behind the inputs.
inline values cotangents(const values& y, const values& cts, const values& at) {
  value total;
  std::size_t next = 0;
  for (const auto& v : y)
    if (is_float(v.type())) {
      const value part = cast(sum(v * cts[next++]), dtype::f64);
      total = total ? total + part : part;
    }
  values wrt, out;
  for (const auto& v : at)
    if (is_float(v.type())) wrt.push_back(v);
  graph& g = at[0].owner();
  for (auto id : sinter::engine::gradient(g, total.id(), ids(wrt), {})) out.push_back({g, id});
  return out;
}

struct how {
  double tolerance = 0;
  bool tangents = true, cotangents = true;
  double slopes = 1e-9;  ///< their tolerance
};

inline void check_tangents(const function& f, const std::vector<input>& in, unsigned pattern, std::int64_t count,
                           double tolerance) {
  std::vector<input> both = in;
  unsigned flags = pattern;
  for (std::size_t k = 0; k < in.size(); ++k)
    if (is_float(in[k].type)) {
      if (varies(pattern, k)) flags |= 1u << both.size();
      both.push_back({in[k].type, in[k].extents, -1, 1});
    }
  const graph lane = of_one(with_tangents(f, in.size()), both);
  const batched of_tangents(lane, flags, count);
  const auto given = arguments(both, flags, count, 3);
  CHECK(difference(lane, of_tangents, flags, count, given, tolerance) == "");
  // The other way round: the tangents of all lanes' graph.
  const graph plain = of_one(f, in);
  batched all(plain, pattern, count);
  values along;
  for (std::size_t k = in.size(); k < both.size(); ++k) {
    const auto& e = given[k].extents;
    along.push_back({all.g, all.g.add_input(both[k].type, {e.begin(), e.end()})});
  }
  values wrt, from;
  for (const auto& v : all.in)
    if (is_float(v.type())) wrt.push_back(v);
  std::vector<bool> spread;
  for (std::size_t k = 0; k < plain.outputs.size(); ++k)
    if (is_float(all.result(k).type())) {
      from.push_back(all.result(k));
      spread.push_back(all.out.varies[k]);
    }
  const auto pushed = sinter::engine::autodiff::jvp(all.g, ids(from), ids(wrt), ids(along));
  all.g.outputs = pushed;
  sinter::ir::check(all.g, "jvp of lanes");
  const auto a = arrays::run(of_tangents.g, given), b = arrays::run(all.g, given);
  for (std::size_t k = 0; k < b.size(); ++k) {
    const std::size_t mine = plain.outputs.size() + k;
    // A tangent that is 0 whatever the lane need not have lanes.
    if (of_tangents.out.varies[mine] == spread[k]) CHECK(arrays::difference(a[mine], b[k], tolerance) == "");
    else if (count > 0) CHECK(arrays::difference(a[mine], slice(b[k], count - 1), tolerance) == "");
  }
}

inline void check_cotangents(const function& f, const std::vector<input>& in, unsigned pattern, std::int64_t count,
                             double tolerance) {
  const graph plain = of_one(f, in);
  std::vector<input> both = in;
  unsigned flags = pattern;
  const batched shapes(plain, pattern, count);
  std::vector<bool> spread;
  for (std::size_t k = 0; k < plain.outputs.size(); ++k) {
    const auto& n = plain[plain.outputs[k]];
    if (!is_float(n.type)) continue;
    extents_t e;
    for (const auto& d : n.extents) e.push_back(*d.number());
    spread.push_back(shapes.out.varies[k]);
    if (spread.back()) flags |= 1u << both.size();
    both.push_back({n.type, e, -1, 1});
  }
  if (spread.empty()) return;
  const auto count_in = static_cast<std::ptrdiff_t>(in.size());
  const graph lane = of_one(
      [&](const values& x) {
        const values at(x.begin(), x.begin() + count_in);
        return cotangents(f(at), {x.begin() + count_in, x.end()}, at);
      },
      both);
  const batched of_cotangents(lane, flags, count);
  const auto given = arguments(both, flags, count, 4);
  CHECK(difference(lane, of_cotangents, flags, count, given, tolerance) == "");
  batched all(plain, pattern, count);
  values cts, y;
  for (std::size_t k = in.size(); k < both.size(); ++k) {
    const auto& e = given[k].extents;
    cts.push_back({all.g, all.g.add_input(both[k].type, {e.begin(), e.end()})});
  }
  for (std::size_t k = 0; k < plain.outputs.size(); ++k) y.push_back(all.result(k));
  // What does not vary is a result of each lane.
  for (std::size_t k = 0; k < cts.size(); ++k)
    if (!spread[k]) cts[k] = cts[k] * static_cast<double>(count);
  all.g.outputs = ids(cotangents(y, cts, all.in));
  sinter::ir::check(all.g, "vjp of lanes");
  // What does not vary receives the sum over the lanes.
  graph& sums = const_cast<graph&>(of_cotangents.g);
  std::size_t next = 0;
  for (std::size_t k = 0; k < in.size(); ++k) {
    if (!is_float(in[k].type)) continue;
    value part(sums, of_cotangents.out.nodes[next]);
    const bool has_lanes = of_cotangents.out.varies[next];
    if (varies(pattern, k) && !has_lanes) part = sinter::ir::ops::over_lanes(part, count);
    if (!varies(pattern, k)) part = has_lanes ? reduce(part, op::add, {0}) : part * static_cast<double>(count);
    sums.outputs[next++] = part.id();
  }
  const auto a = arrays::run(sums, given), b = arrays::run(all.g, given);
  for (std::size_t k = 0; k < b.size(); ++k) CHECK(arrays::difference(a[k], b[k], tolerance) == "");
}

/// f for no lanes, one and five, every pattern of what varies; and its derivatives, of lanes and by lane.
inline void agree(const function& f, const std::vector<input>& in, how h = {}) {
  const graph lane = of_one(f, in);
  for (std::int64_t count : {5, 1, 0})
    for (unsigned pattern = 0; pattern < 1u << in.size(); ++pattern) {
      CAPTURE(count);
      CAPTURE(pattern);
      const auto given = arguments(in, pattern, count);
      const batched all(lane, pattern, count);
      CHECK(difference(lane, all, pattern, count, given, h.tolerance) == "");
      if (count == 1) continue;
      if (h.tangents) check_tangents(f, in, pattern, count, h.slopes);
      if (h.cotangents) check_cotangents(f, in, pattern, count, h.slopes);
    }
}

}  // namespace lanes
