// tests/plan/loops/kernels.hpp: kernels by hand, their memory, and what they compute by plain recursion.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <random>
#include <sinter/ir/define.hpp>
#include <sinter/plan/loops/build.hpp>
#include <sinter/plan/loops/interpret.hpp>
#include <string>
#include <vector>

namespace kernels {

using namespace sinter::engine::plan;
using sinter::dtype;
using sinter::series;
using sinter::ir::op;
using sinter::ir::scalar;

/// A kernel under construction, and the number of elements of each buffer.
struct program {
  kernel k;
  std::vector<std::int64_t> elements;
  std::vector<std::int64_t> sizes;  ///< of symbols

  int axis(dim extent) {
    k.axes.push_back({extent, role::inner});
    return static_cast<int>(k.axes.size()) - 1;
  }
  int buffer(dtype type, std::int64_t count, bool written = false) {
    k.buffers.push_back({static_cast<int>(k.buffers.size()), type, written});
    elements.push_back(count);
    return static_cast<int>(k.buffers.size()) - 1;
  }
  std::int64_t extent(int axis) const { return k.axes[static_cast<std::size_t>(axis)].extent.evaluate(sizes); }
  affine map(std::initializer_list<std::pair<int, dim>> strides, dim offset = 0) const {
    affine at{offset, series<dim>(k.axes.size()), {}, -1};
    for (const auto& [a, s] : strides) at.stride[static_cast<std::size_t>(a)] = s;
    return at;
  }
  /// A load of a new buffer whose elements lie row-major along `axes`, with `gap` unused elements behind each row.
  int input(dtype type, std::vector<int> axes, std::int64_t gap = 0) {
    std::int64_t count = 1;
    affine at{0, series<dim>(k.axes.size()), {}, -1};
    dim stride = 1;
    for (std::size_t d = axes.size(); d-- > 0;) {
      at.stride[static_cast<std::size_t>(axes[d])] = stride;
      stride *= k.axes[static_cast<std::size_t>(axes[d])].extent;
      count *= extent(axes[d]);
      if (d + 1 == axes.size()) stride += gap, count += gap;
    }
    return load(buffer(type, stride.evaluate(sizes)), at);
  }
  int load(int buffer, const affine& at, int guard = -1) {
    instruction i;
    i.kind = kind::load;
    i.type = k.buffers[static_cast<std::size_t>(buffer)].type;
    i.at = {buffer, at};
    i.axes = axes_of(k, at);
    if (guard >= 0) {
      i.args = {guard};
      i.axes |= k.body[static_cast<std::size_t>(guard)].axes;
    }
    return add(k, std::move(i));
  }
  int number(dtype type, double x) { return literal(k, type, scalar::of(type, x)); }
  int apply(op code, dtype type, series<int> args) { return compute(k, code, type, std::move(args)); }
  int reduce(op code, dtype type, series<int> args, series<int> over, merge_rule rule = merge_rule::one) {
    instruction i;
    i.kind = kind::reduce;
    i.code = code;
    i.type = type;
    i.rule = rule;
    for (int a : args) i.axes |= k.body[static_cast<std::size_t>(a)].axes;
    for (int a : over) i.axes &= ~(1u << a);
    i.args = std::move(args);
    i.over = std::move(over);
    return add(k, std::move(i));
  }
  int part(int tuple, int index, dtype type, std::uint32_t axes) {
    instruction i;
    i.kind = kind::part;
    i.type = type;
    i.args = {tuple};
    i.index = index;
    i.axes = axes;
    return add(k, std::move(i));
  }
  /// A store of a new buffer, row-major along `axes`.
  void output(int value, std::vector<int> axes, dtype type) {
    affine at{0, series<dim>(k.axes.size()), {}, -1};
    dim stride = 1;
    for (std::size_t d = axes.size(); d-- > 0;) {
      at.stride[static_cast<std::size_t>(axes[d])] = stride;
      stride *= k.axes[static_cast<std::size_t>(axes[d])].extent;
    }
    const int b = buffer(type, stride.evaluate(sizes), true);
    k.stores.push_back({value, {b, at}, false, {}});
  }
};

/// What a buffer holds before a kernel wrote it.
inline constexpr double unwritten = -77777;

/// Small integers, so that sums are exact in any order.
inline loops::memory filled(const program& p, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  loops::memory m;
  for (std::size_t b = 0; b < p.k.buffers.size(); ++b) {
    series<scalar> x;
    for (std::int64_t i = 0; i < p.elements[b]; ++i) {
      const auto n = static_cast<std::int64_t>(random() % 7) - 3;
      const bool flat = is_float(p.k.buffers[b].type);
      x.push_back(p.k.buffers[b].written ? flat ? scalar{unwritten, 0} : scalar{0, -77}
                  : flat ? scalar{static_cast<double>(n), 0}
                                         : scalar{0, n});
    }
    m.push_back(std::move(x));
  }
  return m;
}

/// A bound of difference(): that which follows from the roundings of each element.
inline constexpr double derived = -1;

/// A number and how far a kernel's may lie from the exact one, whose sums have any order.
struct estimate {
  scalar x;
  double error = 0;
};

/// Half the distance of 1 from the next number.
inline double unit_of(dtype t) {
  return t == dtype::f64 ? 0x1p-53 : t == dtype::f16 ? 0x1p-11 : t == dtype::bf16 ? 0x1p-8 : 0x1p-24;
}
inline bool is_held(double x, dtype t) { return loops::rounded(scalar{x, 0}, t).f == x; }

/// The error of a pointwise op by those of its operands. Functions are within 2 units in the last place; what is exact, and fits, stays so.
inline double error_of(op code, dtype type, double z, const std::vector<estimate>& in) {
  const auto x = [&](std::size_t k) { return std::fabs(in[k].x.f); };
  const auto e = [&](std::size_t k) { return in[k].error; };
  const double unit = unit_of(type), last = unit * std::fabs(z);
  if (std::isnan(z) || std::isinf(z)) return 0;
  switch (code) {
    case op::select:
      return in[0].x.i ? e(1) : e(2);
    case op::cast:
      return e(0) == 0 && is_held(in[0].x.f, type) ? 0 : e(0) + unit * (x(0) + e(0));
    case op::maximum:
    case op::minimum:
      return std::max(e(0), e(1));
    case op::add:
    case op::sub: {
      const double exact = code == op::add ? in[0].x.f + in[1].x.f : in[0].x.f - in[1].x.f;
      return e(0) + e(1) == 0 && is_held(exact, type) ? 0 : (e(0) + e(1)) * (1 + unit) + last;
    }
    case op::mul:
      if (e(0) + e(1) == 0 && is_held(in[0].x.f * in[1].x.f, type)) return 0;
      return (x(0) * e(1) + x(1) * e(0) + e(0) * e(1)) * (1 + unit) + last;
    case op::div:
      if (!(x(1) > e(1))) FAIL("a divisor may be 0");
      return (e(0) + std::fabs(z) * e(1)) / (x(1) - e(1)) * (1 + unit) + last;
    case op::exp:
      return std::fabs(z) * std::expm1(e(0)) * (1 + 4 * unit) + 4 * last;
    default:
      FAIL("no error of " << sinter::ir::name(code));
      return 0;
  }
}

/// Computes a kernel's stores a position at a time, each value by recursion over its operands.
class reference {
 public:
  /// With `slack` that of each element is found, too.
  reference(const program& p, loops::memory& m, std::vector<std::vector<double>>* slack = nullptr)
      : p_(p),
        k_(p.k),
        m_(m),
        slack_(slack),
        at_(p.k.axes.size(), 0),
        known_(p.k.body.size()),
        operands_(p.k.body.size()) {
    for (std::size_t a = 0; a < at_.size(); ++a) extents_.push_back(p.extent(static_cast<int>(a)));
    for (std::size_t v = 0; v < known_.size(); ++v) {
      std::int64_t n = 1;
      for (std::size_t a = 0; a < at_.size(); ++a)
        if (k_.body[v].axes >> a & 1u) n *= extents_[a];
      known_[v].resize(static_cast<std::size_t>(n));
      if (k_.body[v].kind != kind::compute) continue;
      for (int a : k_.body[v].args) {
        operands_[v].args.push_back({});
        operands_[v].types.push_back(k_.body[static_cast<std::size_t>(a)].type);
      }
    }
  }

  void run() {
    for (std::size_t s = 0; s < k_.stores.size(); ++s) {
      const store& x = k_.stores[s];
      std::uint32_t axes = k_.body[static_cast<std::size_t>(x.value)].axes | loops::axes_of(x.at.at);
      each(axes, 0, [&] {
        const estimate v = found(x.value);
        const dtype type = k_.buffers[static_cast<std::size_t>(x.at.buffer)].type;
        // Both numbers are rounded, and both are as far from the exact one.
        const bool held = v.error == 0 && is_held(v.x.f, type);
        out_.push_back({x.at.buffer, place(x.at.at), loops::rounded(v.x, type),
                        held ? 0 : 2 * (v.error + unit_of(type) * (std::fabs(v.x.f) + v.error))});
      });
    }
    if (slack_)
      for (const auto& b : m_) slack_->emplace_back(b.size(), 0);
    for (const auto& o : out_) {
      const auto b = static_cast<std::size_t>(o.buffer), at = static_cast<std::size_t>(o.at);
      m_[b][at] = o.x;
      if (slack_) (*slack_)[b][at] = o.slack;
    }
  }

 private:
  struct written {
    int buffer;
    std::int64_t at;
    scalar x;
    double slack;
  };
  template <class F>
  void each(std::uint32_t axes, int a, F&& f) {
    if (a == static_cast<int>(at_.size())) return f();
    if (!(axes >> a & 1u)) return each(axes, a + 1, f);
    const auto was = at_[static_cast<std::size_t>(a)];
    for (std::int64_t i = 0; i < extents_[static_cast<std::size_t>(a)]; ++i) {
      at_[static_cast<std::size_t>(a)] = i;
      each(axes, a + 1, f);
    }
    at_[static_cast<std::size_t>(a)] = was;
  }
  std::int64_t place(const affine& at) {
    std::int64_t n = at.offset.evaluate(p_.sizes);
    for (std::size_t a = 0; a < at.stride.size(); ++a) n += at.stride[a].evaluate(p_.sizes) * at_[a];
    if (at.index >= 0) n += at.indirect.evaluate(p_.sizes) * value(at.index).i;
    return n;
  }
  scalar value(int v) { return found(v).x; }
  estimate found(int v) {
    const instruction& i = k_.body[static_cast<std::size_t>(v)];
    if (i.kind == kind::literal) return {i.literal, 0};
    std::int64_t n = 0;
    for (std::size_t a = 0; a < at_.size(); ++a)
      if (i.axes >> a & 1u) n = n * extents_[a] + at_[a];
    const auto known = [&]() -> std::optional<estimate>& {
      return known_[static_cast<std::size_t>(v)][static_cast<std::size_t>(n)];
    };
    if (!known()) {
      estimate e{computed(i, v), 0};
      if (slack_ && is_float(i.type)) e.error = error(i, e.x.f);
      known() = e;
    }
    return *known();
  }
  double error(const instruction& i, double z) {
    if (i.kind == kind::load) return 0;
    if (i.kind == kind::compute) {
      std::vector<estimate> in;
      for (int a : i.args) in.push_back(found(a));
      return error_of(i.code, i.type, z, in);
    }
    if (i.kind != kind::reduce || i.rule != merge_rule::one) FAIL("no error of a tuple");
    double terms = 0, errors = 0, most = 0, count = 0;
    bool whole = true;
    each(loops::axes_over(i), 0, [&] {
      const estimate t = found(i.args[0]);
      const double x = std::fabs(t.x.f);
      terms += x + t.error, errors += t.error, most = std::max(most, t.error), count += 1;
      whole = whole && x == std::trunc(x);
    });
    if (i.code != op::add) return most;
    const double unit = unit_of(i.type);
    // Roundings of a sum point either way: they grow with the root of their number, whatever the order.
    return whole && errors == 0 && terms <= 1 / unit ? 0 : errors + 2 * std::sqrt(count) * unit * terms;
  }
  scalar computed(const instruction& i, int v) {
    if (i.kind == kind::position) return {0, place(i.at.at)};
    if (i.kind == kind::inside) {
      bool in = true;
      for (const auto& r : i.ranges) in = in && place(r.at) >= 0 && place(r.at) < r.extent.evaluate(p_.sizes);
      return {0, in};
    }
    if (i.kind == kind::load) {
      if (is_guarded(i) && !value(i.args[0]).i) return {};
      return m_[static_cast<std::size_t>(i.at.buffer)].at(static_cast<std::size_t>(place(i.at.at)));
    }
    if (i.kind == kind::compute) {
      auto& [args, types] = operands_[static_cast<std::size_t>(v)];
      for (std::size_t a = 0; a < args.size(); ++a) args[a] = value(i.args[a]);
      return loops::pointwise(i.code, i.type, args, types);
    }
    if (i.kind == kind::part) return part(k_.body[static_cast<std::size_t>(i.args[0])], i.index);
    return reduced(i);
  }
  scalar reduced(const instruction& i) {
    const bool flat = is_float(i.type);
    double f = sinter::ir::combiner_identity(i.code, i.type).f;
    std::int64_t n = sinter::ir::combiner_identity(i.code, i.type).i;
    each(loops::axes_over(i), 0, [&] {
      const scalar x = value(i.args[0]);
      if (i.code == op::add) f += i.squares ? x.f * x.f : x.f, n += x.i;
      else if (i.code == op::maximum) f = std::max(f, x.f), n = std::max(n, x.i);
      else if (i.code == op::minimum) f = std::min(f, x.f), n = std::min(n, x.i);
      else FAIL("no such reduction");
    });
    return flat ? scalar{f, 0} : scalar{0, n};
  }
  scalar part(const instruction& i, int index) {
    const std::uint32_t over = loops::axes_over(i);
    if (i.rule == merge_rule::weighted) {
      double most = -INFINITY, sum = 0;
      each(over, 0, [&] { most = std::max(most, value(i.args[0]).f); });
      if (index == 0) return {most, 0};
      each(over, 0, [&] {
        const double w = most == -INFINITY ? 0 : std::exp(value(i.args[0]).f - most);
        sum += w * value(i.args[static_cast<std::size_t>(index)]).f;
      });
      return {sum, 0};
    }
    if (i.rule == merge_rule::moments) {
      double n = 0, sum = 0, squares = 0;
      each(over, 0, [&] { n += 1, sum += value(i.args[0]).f; });
      const double mean = n > 0 ? sum / n : 0;
      each(over, 0, [&] { squares += (value(i.args[0]).f - mean) * (value(i.args[0]).f - mean); });
      return {index == 0 ? n : index == 1 ? mean : squares, 0};
    }
    scalar best{}, where{0, INT64_MAX};
    each(over, 0, [&] {
      const scalar x = value(i.args[0]), w = value(i.args[1]);
      const bool better = i.code == op::maximum ? x.f > best.f : x.f < best.f, nan = std::isnan(x.f),
                 was = std::isnan(best.f);
      if (where.i == INT64_MAX || (nan && !was) || (!was && better)) best = x, where = w;
    });
    return index == 0 ? best : where;
  }

  const program& p_;
  const kernel& k_;
  loops::memory& m_;
  std::vector<std::vector<double>>* slack_;
  std::vector<std::int64_t> at_;
  std::vector<std::int64_t> extents_;
  std::vector<std::vector<std::optional<estimate>>> known_;  ///< of each value, by its own axes
  struct pair {
    series<scalar> args;
    series<dtype> types;
  };
  std::vector<pair> operands_;  ///< of each value
  std::vector<written> out_;
};

/// What a kernel computes, by plain recursion; with `derived`, how far each element may be from it.
struct expected {
  expected(const program& p, std::uint64_t seed, double bound = 0) : memory(filled(p, seed)), bound(bound) {
    reference(p, memory, bound == derived ? &slack : nullptr).run();
  }
  loops::memory memory;
  double bound;  ///< 0: none; otherwise relative to 1 + |want|
  std::vector<std::vector<double>> slack;
};

/// The first difference between memories.
inline std::string difference(const program& p, const loops::memory& got, const expected& to) {
  const loops::memory& want = to.memory;
  for (std::size_t b = 0; b < want.size(); ++b)
    for (std::size_t i = 0; i < want[b].size(); ++i) {
      const scalar x = got[b][i], y = want[b][i];
      const bool flat = is_float(p.k.buffers[b].type);
      const double slack = to.bound == derived ? to.slack[b][i] : to.bound * (1 + std::fabs(y.f));
      const bool same =
          flat ? (x.f == y.f || (std::isnan(x.f) && std::isnan(y.f)) || std::fabs(x.f - y.f) <= slack) : x.i == y.i;
      if (!same)
        return "buffer " + std::to_string(b) + "[" + std::to_string(i) + "] is " +
               (flat ? std::to_string(x.f) : std::to_string(x.i)) + ", not " +
               (flat ? std::to_string(y.f) + " within " + std::to_string(slack) : std::to_string(y.i));
    }
  return {};
}

/// What is wrong with a tree of p: the interpreter's sentence, or a wrong number.
inline std::string wrong(const program& p, const loops::tree& t, std::uint64_t seed = 1, double bound = 0) {
  loops::memory got = filled(p, seed);
  const std::string said = loops::interpret(t, p.sizes, got, seed);
  return said.empty() ? difference(p, got, {p, seed, bound}) : said;
}

/// x(m, k) · y(k, n), stored.
/// x_along_m: rows of x follow each other along m, not k; y_along_k: those of y along k, not n.
inline program matrix_product(std::int64_t m, std::int64_t n, std::int64_t k, dtype operands = dtype::f32,
                              dtype sum = dtype::f32, bool x_along_m = false, bool y_along_k = false) {
  program p;
  const int i = p.axis(m), j = p.axis(n), l = p.axis(k);
  using axes = std::vector<int>;
  int x = p.input(operands, x_along_m ? axes{l, i} : axes{i, l}),
      y = p.input(operands, y_along_k ? axes{j, l} : axes{l, j});
  if (operands != sum) x = converted(p.k, x, sum), y = converted(p.k, y, sum);
  const int s = p.reduce(op::add, sum, {p.apply(op::mul, sum, {x, y})}, {l});
  p.output(s, {i, j}, sum);
  return p;
}

}  // namespace kernels
