// tests/fuzz/growing_graph.hpp: what random graphs are made with: values to choose from, and how they are pushed.
#pragma once

#include <random>
#include <sinter/autodiff/jvp.hpp>
#include <sinter/ir/define.hpp>
#include <string>
#include <vector>

namespace fuzz {

using sinter::dtype;
using sinter::user_error;
using sinter::ir::attributes;
using sinter::ir::dim;

using sinter::ir::node_id;
using sinter::ir::op;
using sinter::ir::scalar;
using sinter::ir::shape;

struct recipe {
  std::vector<dim> theme;           ///< extents that tensors are made of
  std::vector<std::int64_t> hints;  ///< values of the symbols in them
  std::int64_t max_elements = 4096;
  int steps = 14;
  int derivatives = 0;  ///< gradients taken of what was drawn
  std::size_t max_inputs = 10;
  int depth = 0;  ///< of branches and loops around it
};

/// Derivatives of what is differentiable do not fail. Those that there are none of: in reverse, a loop of an unknown number
/// of steps.
template <class F>
bool differentiates(F&& push) {
  try {
    push();
    return true;
  } catch (const user_error& e) {
    const std::string why = e.what();
    if (why.find("it has no derivative by what goes in") != std::string::npos) return false;
    throw std::runtime_error("a derivative is refused: " + why);
  }
}

/// Whether a node's ranges and widths are what a trace would have compared: right at these sizes of the symbols.
inline bool holds(const sinter::ir::graph& g, node_id id, const std::vector<std::int64_t>& sizes) {
  const sinter::ir::node& n = g[id];
  const auto at = [&](const dim& d) { return d.evaluate(sizes); };
  for (const auto& e : n.extents)
    if (at(e) < 0) return false;
  for (std::size_t i = 0; n.code == op::pad && i < n.attr.dims.size(); ++i)
    if (at(n.attr.dims[i]) < 0) return false;
  if (n.code == op::reshape && at(sinter::ir::product(n.extents)) != at(sinter::ir::product(g[n.in[0]].extents)))
    return false;
  if (n.code == op::argsort) {
    const auto axis = static_cast<std::size_t>(n.attr.ints[0]);
    if (at(n.extents[axis]) > at(g[n.in[0]].extents[axis])) return false;
  }
  for (std::size_t i = 0; n.code == op::slice && i < n.extents.size(); ++i) {
    const auto extent = at(g[n.in[0]].extents[i]), count = at(n.extents[i]),
               first = at(n.attr.dims[n.extents.size() + i]);
    // What was accepted with numbers is right, and may be large.
    const bool open = !g[n.in[0]].extents[i].is_number() || !n.extents[i].is_number() ||
                      !n.attr.dims[n.extents.size() + i].is_number();
    if (!open || count == 0) continue;
    const auto last = first + (count - 1) * n.attr.ints[i];
    if (first < 0 || first >= extent || last < 0 || last >= extent) return false;
  }
  const std::size_t rank = n.extents.size();
  bool nothing = false;
  for (const auto& e : n.extents) nothing = nothing || at(e) == 0;
  for (std::size_t d = 0; n.code == op::window && !nothing && rank + d < n.attr.dims.size(); ++d) {
    auto low = at(n.attr.dims[rank + d]), high = low;
    for (std::size_t j = 0; j < rank; ++j) {
      const auto factor = n.attr.ints[d * rank + j];
      (factor > 0 ? high : low) += factor * (at(n.extents[j]) - 1);
    }
    if (low < 0 || high >= at(g[n.in[0]].extents[d])) return false;
  }
  return true;
}
/// The same of all that a graph computes.
inline bool holds(const sinter::ir::graph& g, const std::vector<std::int64_t>& sizes) {
  for (auto id : g.live()) {
    if (!holds(g, id, sizes)) return false;
    if (const auto& step = g[id].attr.step)
      for (const auto& part : step->parts)
        if (!holds(part, sizes)) return false;
  }
  return true;
}

/// A graph under construction. `pool_` has the values that the next ops choose from.
class growing_graph {
 public:
  /// Any op on any operands with any attributes. False when it is refused, as most are; what is accepted has to work like
  /// everything else.
  bool anything() {
    const op code = static_cast<op>(below(static_cast<std::uint64_t>(op::searchsorted) + 1));
    const auto few = [&] { return static_cast<std::int64_t>(below(4)) - (chance(20) ? 1 : 0); };
    if (code == op::input) return false;
    attributes a;
    a.type = any_type();
    a.combiner = static_cast<op>(below(static_cast<std::uint64_t>(sinter::ir::pointwise_count)));
    std::size_t operands = code == op::constant || code == op::iota                            ? 0
                           : code == op::gather || code == op::dot || code == op::searchsorted ? 2
                           : code == op::scatter_add || code == op::scatter                    ? 3
                           : code == op::concat                                                ? below(4)
                           : code == op::scan                                                  ? 1 + below(2)
                           : sinter::ir::is_pointwise(code) ? static_cast<std::size_t>(row(code).arity)
                                                            : 1;
    std::vector<node_id> in;
    for (; operands > 0; --operands) in.push_back(chance(40) && !in.empty() ? in[0] : any());
    const std::size_t r = in.empty() ? below(4) : rank(in[0]);
    std::size_t ints = 0, dims = 0;
    switch (code) {
      case op::constant:
      case op::reshape:
      case op::broadcast:
        dims = chance(70) ? r : below(5);
        break;
      case op::pad:
        dims = 2 * r;
        break;
      case op::slice:
        ints = r;
        dims = 2 * r;
        break;
      case op::window: {
        const std::size_t to = below(4);
        ints = r * to;
        dims = r + to;
        break;
      }
      case op::permute:
      case op::reduce:
        ints = code == op::reduce ? below(r + 1) : r;
        break;
      case op::iota:
      case op::concat:
      case op::arg_reduce:
      case op::gather:
      case op::scatter_add:
        ints = 1;
        dims = code == op::iota ? r : 0;
        break;
      case op::scatter:
        a.ints = {few(), 0};
        break;
      case op::argsort:
        dims = 1;
        [[fallthrough]];
      case op::searchsorted:
      case op::scan:
        a.ints = {few(), static_cast<std::int64_t>(below(2))};
        break;
      case op::dot: {
        const auto most = std::min(rank(in[0]), rank(in[1]));
        const auto batch = below(most + 1);
        a.ints = {static_cast<std::int64_t>(batch), static_cast<std::int64_t>(below(most - batch + 1))};
        break;
      }
      default:
        break;
    }
    for (; ints > 0; --ints) a.ints.push_back(few());
    for (; dims > 0; --dims) a.dims.push_back(chance(30) ? pick(how_.theme) : dim(few()));
    if (code == op::constant || code == op::iota || code == op::broadcast || code == op::pad) {
      std::int64_t n = 1;
      for (const auto& e : a.dims) {
        n *= std::clamp<std::int64_t>(e.evaluate(how_.hints), 1, std::int64_t{1} << 31);
        if (n > how_.max_elements) return false;
      }
    }
    try {
      const node_id y = push(code, std::move(in), std::move(a));
      if (!holds(graph, y, how_.hints)) return false;
      if (rank(y) <= 7) keep(y);
      return true;
    } catch (const user_error&) {
      return false;
    }
  }

  /// Floating nodes that a derivative can be taken of.
  std::vector<node_id> floating() const {
    std::vector<node_id> found;
    for (auto x : pool_)
      if (sinter::is_float(type_of(x))) found.push_back(x);
    return found;
  }

  sinter::ir::graph graph;

  std::uint64_t below(std::uint64_t n) { return bits_() % n; }
  bool chance(int percent) { return static_cast<int>(below(100)) < percent; }

 protected:
  growing_graph(std::uint64_t seed, recipe how) : bits_(seed), how_(std::move(how)) {}

  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }
  template <class T>
  T one_of(std::initializer_list<T> from) {
    return from.begin()[below(from.size())];
  }

  /// Elements; no more than 2^31.
  std::int64_t numel(const shape& s) const {
    std::int64_t n = 1;
    for (const auto& e : s)
      if (__builtin_mul_overflow(n, e.evaluate(how_.hints), &n) || n > std::int64_t{1} << 31) n = std::int64_t{1} << 31;
    return n;
  }
  /// As numel, without extents of 0: what is left when an axis of these is dropped.
  std::int64_t bulk(shape s) const {
    for (auto& e : s)
      if (e.evaluate(how_.hints) == 0) e = 1;
    return numel(s);
  }
  const shape& shape_of(node_id x) const { return graph[x].extents; }
  dtype type_of(node_id x) const { return graph[x].type; }
  std::size_t rank(node_id x) const { return shape_of(x).size(); }

  dtype any_type() {
    return one_of({dtype::f32, dtype::f32, dtype::f32, dtype::f64, dtype::f16, dtype::bf16, dtype::i32, dtype::i64,
                   dtype::i8, dtype::i16, dtype::u8, dtype::u16, dtype::u32, dtype::u64, dtype::b8, dtype::f8_e4m3,
                   dtype::f8_e5m2});
  }
  shape any_shape(std::size_t max_rank) {
    shape s;
    for (std::size_t r = below(max_rank + 1); r > 0; --r) s.push_back(chance(12) ? dim(1) : pick(how_.theme));
    while (bulk(s) > how_.max_elements) s.pop_back();
    return s;
  }
  node_id keep(node_id x) {
    if (bulk(shape_of(x)) <= 4 * how_.max_elements) pool_.push_back(x);
    return x;
  }
  /// A recent node more often than an old one.
  node_id any() {
    const auto n = pool_.size();
    return pool_[n - 1 - std::min(below(n), below(n))];
  }

  node_id push(op code, std::vector<node_id> in, attributes a = {}) {
    lines_ += 1;
    return graph.push(code, std::move(in), std::move(a), {"fuzz.cpp", lines_});
  }
  node_id input(dtype t, shape s) { return graph.add_input(t, std::move(s)); }
  node_id cast(node_id x, dtype t) {
    if (type_of(x) == t) return x;
    attributes a;
    a.type = t;
    return push(op::cast, {x}, a);
  }
  node_id reshape(node_id x, shape s) {
    attributes a;
    a.dims = std::move(s);
    return push(op::reshape, {x}, a);
  }
  node_id broadcast(node_id x, shape s) {
    attributes a;
    a.dims = std::move(s);
    return push(op::broadcast, {x}, a);
  }
  node_id permute(node_id x, std::vector<std::int64_t> p) {
    attributes a;
    a.ints = std::move(p);
    return push(op::permute, {x}, a);
  }
  node_id reduce(node_id x, op combiner, std::vector<std::int64_t> axes) {
    attributes a;
    a.combiner = combiner;
    a.ints = std::move(axes);
    return push(op::reduce, {x}, a);
  }
  node_id literal(dtype t, const shape& s) {
    const double x = one_of({0.0, 1.0, 2.0, -1.0, 0.5, 3.0, 7.0});
    return graph.constant(t, sinter::is_bool(t) ? scalar{0, x > 0} : scalar::of(t, x), s);
  }
  node_id iota(dtype t, const shape& s) {
    attributes a;
    a.type = sinter::is_bool(t) ? dtype::i32 : t;
    a.dims = s;
    a.ints = {static_cast<std::int64_t>(below(s.size()))};
    return cast(push(op::iota, {}, a), t);
  }

  /// Some tensor of this dtype and shape: one that exists, a broadcast, an input, a literal.
  node_id tensor(dtype t, const shape& s) {
    if (bulk(s) > 4 * how_.max_elements) throw user_error("too large");
    std::vector<node_id> same, exact;
    for (auto x : pool_)
      if (shape_of(x) == s) (type_of(x) == t ? exact : same).push_back(x);
    if (!exact.empty() && chance(70)) return pick(exact);
    if (!same.empty() && chance(60)) return cast(pick(same), t);
    if (!s.empty() && chance(35)) {
      // Something smaller, broadcast.
      shape small = s;
      for (auto& e : small)
        if (chance(50)) e = 1;
      std::vector<node_id> fits;
      for (auto x : pool_)
        if (shape_of(x).size() < s.size() && numel(shape_of(x)) == numel(small)) fits.push_back(x);
      if (!fits.empty() && chance(60)) {
        const node_id x = pick(fits);
        try {
          return broadcast(reshape(cast(x, t), small), s);
        } catch (const user_error&) {}
      }
      if (graph.inputs.size() < how_.max_inputs) return broadcast(keep(input(t, small)), s);
    }
    if (!s.empty() && chance(12)) return iota(t, s);
    if (chance(15) || graph.inputs.size() >= how_.max_inputs) return literal(t, s);
    return keep(input(t, s));
  }

  std::vector<std::int64_t> some_axes(node_id x) {
    std::vector<std::int64_t> axes;
    const auto r = static_cast<std::int64_t>(rank(x));
    if (chance(25)) {
      for (std::int64_t a = 0; a < r; ++a) axes.push_back(a);
    } else if (chance(50) && r > 0) {
      axes.push_back(chance(60) ? r - 1 : static_cast<std::int64_t>(below(rank(x))));
    } else {
      for (std::int64_t a = 0; a < r; ++a)
        if (chance(50)) axes.push_back(a);
    }
    return axes;
  }
  op combiner_for(dtype t) {
    if (sinter::is_bool(t)) return one_of({op::bit_or, op::bit_and});
    if (sinter::is_float(t)) return one_of({op::add, op::add, op::add, op::maximum, op::minimum, op::mul});
    return one_of({op::add, op::add, op::maximum, op::minimum, op::mul, op::bit_or, op::bit_and});
  }

  std::mt19937_64 bits_;
  recipe how_;
  std::vector<node_id> pool_;
  int lines_ = 0;
};

}  // namespace fuzz
