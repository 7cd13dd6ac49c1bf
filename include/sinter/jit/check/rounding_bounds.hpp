// jit/check/rounding_bounds.hpp: the reference's values of nodes, and bounds of their rounding errors. Values are computed
// again with every intermediate result moved by up to its rounding error.
#pragma once

#include <cmath>
#include <limits>

#include "../../base/sorted.hpp"
#include "../../ir/compose_attention.hpp"
#include "../../ir/define.hpp"
#include "../../ir/vocabulary.hpp"
#include "../backends/code.hpp"

namespace sinter::engine::detail {

using arrays = sorted_map<ir::node_id, ir::literal_array>;

inline double unit_of(dtype t) { return std::ldexp(1.0, -digits_of(t)); }

/// The magnitude below which an absolute error of that size counts as none: results there may underflow to 0.
inline double min_of(dtype t) {
  if (size_of(t) == 1) return 0x1p-9;
  if (t == dtype::f16) return 0x1p-24;
  return t == dtype::f64 ? 0x1p-1000 : 0x1p-120;
}

/// True for pointwise ops whose result is an operand's element, possibly with another sign.
inline bool moves_only(ir::op code) {
  switch (code) {
    case ir::op::neg:
    case ir::op::abs:
    case ir::op::maximum:
    case ir::op::minimum:
    case ir::op::select:
    case ir::op::identity:
    case ir::op::stop_gradient:
    case ir::op::kinked:
      return true;
    default:
      return false;
  }
}

/// The sample in which all results move in one direction.
inline constexpr unsigned together = 5;

/// One evaluation. Sample 0 is the reference itself.
class rounding_bounds {
 public:
  rounding_bounds(const ir::graph& g, const arrays& known, std::span<const std::int64_t> sizes, unsigned sample,
                  rounding_bounds* exact = nullptr, double reach = 1)
      : g_(g), known_(known), sizes_(sizes), sample_(sample), exact_(exact), reach_(reach), picks_(g, g.live()) {}

  const ir::literal_array& operator()(ir::node_id id) {
    if (const auto k = known_.find(id); k != known_.end()) return k->second;
    // In topological order, so that long graphs do not recurse.
    series<ir::node_id> needed = {id};
    sorted_set<ir::node_id> seen = {id};
    for (std::size_t i = 0; i < needed.size(); ++i)
      for (auto in : g_[needed[i]].in)
        if (!known_.contains(in) && !made_.contains(in) && seen.insert(in).second) needed.push_back(in);
    for (const auto n : seen)
      if (!made_.contains(n)) make(n);
    return made_.at(id);
  }

 private:
  const ir::literal_array& at(ir::node_id id) const {
    const auto k = known_.find(id);
    return k != known_.end() ? k->second : made_.at(id);
  }

  void make(ir::node_id id) {
    const ir::node& n = g_[id];
    series<const ir::literal_array*> in;
    if (n.code == ir::op::pick) {
      made_.emplace(id, steps_.at(n.in[0])[static_cast<std::size_t>(n.attr.ints[0])]);
      return;
    }
    for (auto x : n.in) in.push_back(&at(x));
    if (n.code == ir::op::opaque) {
      run_opaque(id, n, in);
      made_.emplace(id, {});
      return;
    }
    if (ir::ops::is_attention(n.code)) {
      made_.emplace(id, of_composition(n, in));
      return;
    }
    ir::literal_array out = ir::detail::compute({n, in, sizes_});
    if (sample_ > 0 && is_float(n.type)) shake(out, n, in, id);
    made_.emplace(id, std::move(out));
  }

  /// Attention rounds as the products and the softmax of its composition do.
  ir::literal_array of_composition(const ir::node& n, const series<const ir::literal_array*>& in) const {
    ir::graph one;
    arrays known;
    for (const auto* x : in) {
      ir::shape extents;
      for (auto e : x->extents) extents.push_back(e);
      known.emplace(one.add_input(x->type, std::move(extents), n.where), *x);
    }
    ir::attributes attr = n.attr;
    if (auto step = ir::with_sizes(*attr.step, [&](const ir::dim& d) { return ir::dim(d.evaluate(sizes_)); }))
      attr.step = std::move(step);
    series<ir::value> operands;
    for (auto id : one.inputs) operands.push_back({one, id, n.where});
    const ir::node_id y = ir::ops::composed_attention(n.code == ir::op::attention_back, attr, operands).id();
    rounding_bounds inside(one, known, sizes_, sample_, nullptr, reach_);
    return inside(y);
  }

  /// The inside is not modelled: operands move by as many roundings as there are steps.
  void run_opaque(ir::node_id id, const ir::node& n, const series<const ir::literal_array*>& in) {
    const ir::opaque& step = *n.attr.step;
    if (step.has_effect && sample_ > 0) {
      exact_->operator()(id);
      steps_.emplace(id, exact_->steps_.at(id));
      return;
    }
    series<ir::literal_array> moved;
    for (const auto* x : in) moved.push_back(*x);
    const double steps = step.kind == ir::opaque_kind::loop ? static_cast<double>(step.length.evaluate(sizes_)) : 100;
    std::uint64_t source = std::uint64_t{id} << 8;
    for (auto& x : moved)
      if (sample_ > 0 && is_float(x.type)) move(x, {}, 8 + 4 * std::sqrt(steps), unit_of(x.type), ++source);
    series<const ir::literal_array*> of;
    for (const auto& x : moved) of.push_back(&x);
    auto results = ir::detail::opaque_results(n, of, ir::detail::is_picked(picks_.of(id)), sizes_);
    for (auto& x : results)
      if (sample_ > 0 && is_float(x.type)) move(x, {}, 8 + 4 * std::sqrt(steps), unit_of(x.type), ++source);
    steps_.emplace(id, std::move(results));
  }

  void shake(ir::literal_array& out, const ir::node& n, const series<const ir::literal_array*>& in, ir::node_id id) {
    const double unit = unit_of(n.type);
    series<double> spread(out.f.size());
    if (ir::is_pointwise(n.code)) {
      if (moves_only(n.code)) return;
    } else {
      const auto r = ir::ops::record_of(n.code).rounding({n, in, sizes_}, out);
      if (r.terms <= 0) return;
      spread_of_terms(r, n, in, spread);
    }
    // Halves are computed in f32 and rounded once, for any op.
    const bool rough = ir::is_pointwise(n.code) && ir::is_expensive(n.code) && size_of(n.type) >= 4;
    const double units = rough ? 8 : 2;
    // Kernels compute f16 in f32, where values beyond f16's range are finite.
    if (is_narrow(n.type) && n.type != dtype::bf16)
      for (double& v : out.f)
        if (vocabulary::isinf(v)) v = std::copysign(65536.0 * (1 + sample_), v);
    move(out, spread, units, unit, id);
  }

  /// Sums round in proportion to the sum of magnitudes, products in proportion to the number of factors.
  void spread_of_terms(const ir::ops::roundings& r, const ir::node& n, const series<const ir::literal_array*>& in,
                       series<double>& spread) const {
    series<ir::literal_array> magnitude;
    for (const auto* x : in) {
      magnitude.push_back(*x);
      for (double& v : magnitude.back().f) v = std::fabs(v);
    }
    series<const ir::literal_array*> of;
    for (const auto& m : magnitude) of.push_back(&m);
    const auto total = ir::detail::compute({n, of, sizes_});
    const double rounding = r.multiplied ? 2 * r.terms : 8 + 2 * std::sqrt(r.terms) + r.terms / 32;
    const bool wide = n.type == dtype::f64 && (in.empty() || in[0]->type == dtype::f64);
    const double unit = wide || r.in_own_dtype ? unit_of(n.type) : 0x1p-24;
    for (std::size_t i = 0; i < spread.size(); ++i) spread[i] = unit * rounding * total.f[i];
  }

  /// Moves each element by up to spread[i] plus `units`, at random, up or down. Whether two sources move an element in the
  /// same direction differs between samples, so that moves do not cancel in all of them. This holds for 7 consecutive
  /// sources. Downwards, numbers that may underflow become 0.
  void move(ir::literal_array& x, const series<double>& spread, double units, double unit, std::uint64_t source) const {
    const std::uint64_t differs = (source % 7 + 1) << 1 >> (sample_ - 1) & 1;  // never in sample 1
    const double least = min_of(x.type);
    for (std::size_t i = 0; i < x.f.size(); ++i) {
      const std::uint64_t element = mixed(source << 32 ^ i);
      const double by = static_cast<double>(mixed(element + sample_) >> 12) * 0x1p-52;  // in [0, 1)
      const double sign = sample_ == together || (element & 1) == differs ? 1 : -1;
      double& v = x.f[i];
      if (!vocabulary::isfinite(v)) continue;
      const double wide = spread.empty() ? 0 : spread[i], by_sign = sign * reach_;
      if (by_sign < 0 && std::fabs(v) + wide < least) v = std::copysign(0.0, v);
      else v += by_sign * (0.5 + by / 2) * (wide + units * unit * std::fabs(v));
    }
  }
  static std::uint64_t mixed(std::uint64_t x) {
    x = (x + 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 29) * 0x94d049bb133111ebull;
    return x ^ x >> 32;
  }

  const ir::graph& g_;
  const arrays& known_;
  std::span<const std::int64_t> sizes_;
  unsigned sample_;
  rounding_bounds* exact_;  ///< sample 0: functions with effects run once
  double reach_;            ///< factor of the rounding errors by which results move; negative: in the other direction
  ir::picks picks_;
  arrays made_;
  sorted_map<ir::node_id, series<ir::literal_array>> steps_;  ///< results of opaque nodes
};

/// The first difference between an array and the reference's value of a node.
struct difference {
  std::size_t compared = 0, undecided = 0;
  bool found = false;
  series<std::int64_t> index;
  std::string got, want;
};

class tolerance_check {
 public:
  tolerance_check(const ir::graph& g, const arrays& known, std::span<const std::int64_t> sizes)
      : g_(g),
        exact_(g, known, sizes, 0),
        moved_{{g, known, sizes, 1, &exact_},
               {g, known, sizes, 2, &exact_},
               {g, known, sizes, 3, &exact_},
               {g, known, sizes, 4, &exact_}},
        far_{{g, known, sizes, together, &exact_, 2},
             {g, known, sizes, together, &exact_, -2},
             {g, known, sizes, 2, &exact_, 2},
             {g, known, sizes, 2, &exact_, -2}} {}
  tolerance_check(const tolerance_check&) = delete;
  tolerance_check& operator=(const tolerance_check&) = delete;

  const ir::graph& graph() const { return g_; }
  const ir::literal_array& value(ir::node_id id) { return exact_(id); }

  /// Compares elements: they agree, or differ beyond rounding errors.
  difference compare(ir::node_id id, const ir::literal_array& got) {
    difference d;
    const ir::literal_array& want = exact_(id);
    const ir::literal_array* moved[] = {&moved_[0](id), &moved_[1](id), &moved_[2](id), &moved_[3](id)};
    const bool floating = is_float(want.type);
    const std::size_t count = floating ? want.f.size() : want.i.size();
    for (std::size_t i = 0; i < count; ++i) {
      bool decided = true, same = false;
      if (floating) {
        const double w = want.f[i], g = got.f[i];
        double spread = 0;
        for (const auto* m : moved) {
          const double v = m->f[i];
          if (v == w || (vocabulary::isnan(v) && vocabulary::isnan(w))) continue;
          const double by = std::fabs(v - w);
          decided = decided && vocabulary::isfinite(by);
          spread = std::max(spread, by);
        }
        same = g == w || (vocabulary::isnan(g) && vocabulary::isnan(w)) ||
               std::fabs(g - w) <= 8 * spread + 2 * unit_of(want.type) * std::fabs(w) + min_of(want.type);
        // Beyond the largest number the result depends on rounding.
        const double most = want.type == dtype::f8_e4m3   ? 448.0
                            : want.type == dtype::f8_e5m2 ? 57344.0
                            : want.type == dtype::f16     ? 65504.0
                            : want.type == dtype::f64     ? 0x1p1023
                                                          : 0x1p127;
        if (std::fabs(w) + 8 * spread > most && vocabulary::isfinite(w)) decided = false;
      } else {
        for (const auto* m : moved) decided = decided && m->i[i] == want.i[i];
        same = got.i[i] == want.i[i];
      }
      if (!same && decided) decided = !jumps_near(id, i, got);
      d.compared += decided;
      d.undecided += !decided;
      if (same || !decided || d.found) continue;
      d.found = true;
      d.got = element(got, i);
      d.want = element(want, i);
      auto rest = static_cast<std::int64_t>(i);
      d.index.resize(want.extents.size());
      for (std::size_t k = want.extents.size(); k-- > 0; rest /= want.extents[k]) d.index[k] = rest % want.extents[k];
    }
    return d;
  }

 private:
  /// Whether a discrete property, an integer or finiteness, becomes as in `got` slightly further away, on either side.
  bool jumps_near(ir::node_id id, std::size_t i, const ir::literal_array& got) {
    const auto finite = [&](const ir::literal_array& x) { return vocabulary::isfinite(x.f[i]); };
    const bool floating = is_float(got.type);
    if (floating && finite(got) == finite(exact_(id))) return false;
    for (auto& far : far_) {
      const ir::literal_array& there = far(id);
      if (floating ? finite(there) == finite(got) : there.i[i] == got.i[i]) return true;
    }
    return false;
  }
  static std::string element(const ir::literal_array& x, std::size_t i) {
    return is_float(x.type) ? text::number(x.f[i]) : std::to_string(x.i[i]);
  }

  const ir::graph& g_;
  rounding_bounds exact_, moved_[4], far_[4];
};

}  // namespace sinter::engine::detail
