// Every row of ops.def, and what is composed of rows, against one-sided differences of its values: at generic points, zeros, ties and kinks.
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <sinter/autodiff/jvp.hpp>
#include <sinter/autodiff/vjp.hpp>

#include "../ir/arrays.hpp"

using arrays::literal_array;
using sinter::dtype;
using sinter::ir::graph;
using sinter::ir::node_id;
using sinter::ir::op;
using sinter::ir::value;

namespace {

/// A pointwise function of f64 operands.
using function = std::function<value(const std::vector<value>&)>;
using point = std::vector<double>;

/// Of the values at 0, h, 2h, …: the value, the first and the second derivative there, to order h⁶.
constexpr double stencil[3][8] = {
    {1, 0, 0, 0, 0, 0, 0, 0},
    {-49.0 / 20, 6, -15.0 / 2, 20.0 / 3, -15.0 / 4, 6.0 / 5, -1.0 / 6, 0},
    {469.0 / 90, -223.0 / 10, 879.0 / 20, -949.0 / 18, 41, -201.0 / 10, 1019.0 / 180, -7.0 / 10}};

bool near(double a, double b, double tolerance) { return std::fabs(a - b) <= tolerance * (1 + std::fabs(b)); }
bool same(double a, double b) { return (std::isnan(a) && std::isnan(b)) || a == b || near(a, b, 1e-9); }

/// Derivatives at a point as differences have them, on every side: bit k of the index is set where operand k decreases.
/// NaN where differences do not settle.
struct measured {
  std::vector<std::vector<double>> slope, bend;  ///< by operand, by pair of operands
};

/// A function's values, its derivatives of both orders as autodiff has them, and differences.
class audit {
 public:
  audit(const function& f, std::size_t arity, std::vector<point> points) : arity_(arity), points_(std::move(points)) {
    for (std::size_t k = 0; k < arity; ++k)
      in_.push_back({g_, g_.add_input(dtype::f64, {sinter::ir::dim::symbol(0)}), {}});
    y_ = f(in_);
    const auto slopes = slopes_of(y_);
    std::vector<node_id> ids, of{y_.id()};
    for (const auto& slope : slopes) ids.push_back(slope.id()), of.push_back(slope.id());
    for (const auto& slope : slopes)
      for (const auto& bend : slopes_of(slope)) ids.push_back(bend.id());
    std::vector<std::vector<node_id>> by;
    for (const auto& x : in_) {
      const auto t = sinter::engine::autodiff::jvp(g_, of, std::array{x.id()}, std::array{x.like(1.0).id()});
      by.emplace_back(t.begin(), t.end());
    }
    for (std::size_t o = 0; o < of.size(); ++o)
      for (std::size_t j = 0; j < arity; ++j) ids.push_back(by[j][o]);
    ids.push_back(y_.id());
    g_.outputs.assign(ids.begin(), ids.end());
    sinter::ir::check(g_, "kinks");
    exact_ = run(points_);
    g_.outputs = {y_.id()};
  }

  std::size_t arity() const { return arity_; }
  const std::vector<point>& points() const { return points_; }
  double at(std::size_t p) const { return exact_.back().f[p]; }
  double slope(std::size_t p, std::size_t i) const { return exact_[i].f[p]; }
  double bend(std::size_t p, std::size_t i, std::size_t j) const { return exact_[arity_ + i * arity_ + j].f[p]; }
  /// The same by forward mode: of the value, and of the slope.
  double forward_slope(std::size_t p, std::size_t i) const { return exact_[arity_ * (arity_ + 1) + i].f[p]; }
  double forward_bend(std::size_t p, std::size_t i, std::size_t j) const {
    return exact_[arity_ * (arity_ + 2) + i * arity_ + j].f[p];
  }

  std::vector<measured> measure() const {
    std::vector<measured> all(
        points_.size(), {std::vector<std::vector<double>>(arity_), std::vector<std::vector<double>>(arity_ * arity_)});
    requests r;
    for (std::size_t p = 0; p < points_.size(); ++p)
      for (unsigned side = 0; side < 1u << arity_; ++side)
        for (std::size_t i = 0; i < arity_; ++i) {
          add(r, p, side, i, i, 1, all[p].slope[i]);
          for (std::size_t j = 0; j < arity_; ++j) add(r, p, side, i, j, 2, all[p].bend[i * arity_ + j]);
        }
    const auto y = run(r.at)[0].f;
    for (const auto& [from, weights, to] : r.sums) {
      double sum[2] = {0, 0};
      for (std::size_t k = 0; k < weights.size(); ++k) sum[k >= weights.size() / 2] += weights[k] * y[from + k];
      to->push_back(near(sum[0], sum[1], 2e-6) ? sum[1] : std::numeric_limits<double>::quiet_NaN());
    }
    return all;
  }

 private:
  struct sum {
    std::size_t from;
    std::vector<double> weights;
    std::vector<double>* to;
  };
  struct requests {
    std::vector<point> at;
    std::vector<sum> sums;
  };

  /// The derivative by operand i (and j) with two steps: they agree where there is one.
  void add(requests& r, std::size_t p, unsigned side, std::size_t i, std::size_t j, int order,
           std::vector<double>& to) const {
    sum s{r.at.size(), {}, &to};
    const auto sign = [&](std::size_t k) { return side >> k & 1 ? -1.0 : 1.0; };
    for (const double step : {0x1p-9, 0x1p-10})
      for (int a = 0; a < 8; ++a)
        for (int b = 0; b < (i == j ? 1 : 8); ++b) {
          auto x = points_[p];
          // Where it does not move it keeps the sign of its zero.
          if (a != 0) x[i] += sign(i) * a * step;
          if (b != 0) x[j] += sign(j) * b * step;
          r.at.push_back(x);
          if (i == j) s.weights.push_back(stencil[order][a] / (order == 1 ? sign(i) * step : step * step));
          else s.weights.push_back(stencil[1][a] * stencil[1][b] * sign(i) * sign(j) / (step * step));
        }
    r.sums.push_back(std::move(s));
  }

  std::vector<value> slopes_of(const value& y) {
    std::vector<node_id> wrt;
    for (const auto& x : in_) wrt.push_back(x.id());
    std::vector<value> out;
    for (auto id : sinter::engine::gradient(g_, reduce(y, op::add, {0}).id(), wrt, {})) out.push_back({g_, id, {}});
    return out;
  }

  std::vector<literal_array> run(const std::vector<point>& at) const {
    const auto n = static_cast<std::int64_t>(at.size());
    std::vector<literal_array> inputs(arity_, {dtype::f64, {n}, {}, {}});
    for (const auto& x : at)
      for (std::size_t k = 0; k < arity_; ++k) inputs[k].f.push_back(x[k]);
    return arrays::run(g_, inputs, {n});
  }

  std::size_t arity_;
  std::vector<point> points_;
  graph g_;
  std::vector<value> in_;
  value y_;
  std::vector<literal_array> exact_;
};

/// True where the sides have one derivative.
bool agrees(const std::vector<double>& sides) {
  for (double x : sides)
    if (!std::isfinite(x) || !near(x, sides[0], 1e-5)) return false;
  return true;
}

/// The sides whose derivative x is, as bits.
unsigned sides_of(double x, const std::vector<double>& sides) {
  unsigned bits = 0;
  for (std::size_t s = 0; s < sides.size(); ++s)
    if (near(x, sides[s], 1e-4)) bits |= 1u << s;
  return bits;
}

bool settles(const std::vector<double>& sides, unsigned among) {
  for (std::size_t s = 0; s < sides.size(); ++s)
    if ((among >> s & 1) != 0 && std::isfinite(sides[s])) return true;
  return false;
}

/// What may be said where there is no derivative.
struct allowance {
  bool zero = false;      ///< a first derivative of 0 where no side has it, and then a second that is no number
  bool cautious = false;  ///< NaN also where there is a derivative, and anything where differences do not settle
};

constexpr unsigned every_side = ~0u;

/// Inside the domain a derivative is what all sides have. Else it is one side's, to both orders, or what the table of docs/semantics.md says, and then the
/// second is no number.
void check_first(const audit& a, const measured& m, std::size_t p, std::size_t i, allowance allowed) {
  const double got = a.slope(p, i), forward = a.forward_slope(p, i);
  const auto& sides = m.slope[i];
  if (agrees(sides)) {
    if (!(allowed.cautious && std::isnan(got))) CHECK(near(got, sides[0], 1e-5));
  } else if (std::isfinite(got) && !std::isnan(a.at(p)) && !(allowed.cautious && !settles(sides, every_side))) {
    CHECK_MESSAGE((sides_of(got, sides) != 0 || (allowed.zero && got == 0)), "no side has the derivative ", got);
  }
  if (!allowed.cautious || (std::isfinite(got) && std::isfinite(forward))) CHECK(same(got, forward));
}

void check_second(const audit& a, const measured& m, std::size_t p, std::size_t i, std::size_t j, allowance allowed) {
  const double got = a.bend(p, i, j), forward = a.forward_bend(p, i, j);
  const auto& sides = m.bend[i * a.arity() + j];
  const auto &by_i = m.slope[i], &by_j = m.slope[j];
  if (agrees(by_i) && agrees(by_j) && agrees(sides)) {
    if (!(allowed.cautious && std::isnan(got))) CHECK(near(got, sides[0], 1e-4));
  } else if (std::isfinite(got) && std::isfinite(a.slope(p, i)) && std::isfinite(a.slope(p, j)) &&
             !std::isnan(a.at(p)) && !(allowed.cautious && !(settles(by_i, every_side) && settles(by_j, every_side)))) {
    const unsigned taken = sides_of(a.slope(p, i), by_i) & sides_of(a.slope(p, j), by_j);
    if (!(allowed.cautious && taken != 0 && !settles(sides, taken)))
      CHECK_MESSAGE((taken & sides_of(got, sides)) != 0, "no side has the second derivative ", got);
  }
  if (!allowed.cautious || (std::isfinite(got) && std::isfinite(forward))) CHECK(same(got, forward));
}

void check(const audit& a, allowance allowed) {
  const auto all = a.measure();
  for (std::size_t p = 0; p < a.points().size(); ++p)
    for (std::size_t i = 0; i < a.arity(); ++i) {
      CAPTURE(a.points()[p][0]);
      CAPTURE(a.points()[p].back());
      CAPTURE(i);
      check_first(a, all[p], p, i, allowed);
      for (std::size_t j = 0; j < a.arity(); ++j) {
        CAPTURE(j);
        check_second(a, all[p], p, i, j, allowed);
      }
    }
}

const std::vector<double> numbers{0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, 0.3, -1.7, 1.25, 0.75, -0.75, -0.6, 2.5};

/// A row as a function of its floating operands, for each value of what else it takes.
struct row_function {
  std::string name;
  op code;
  std::size_t arity;
  function f;
};

/// Rows of ops.def that take floats and give them.
std::vector<row_function> rows() {
  std::vector<row_function> all;
  for (int i = 0; i < sinter::ir::pointwise_count; ++i) {
    const auto code = static_cast<op>(i);
    const auto& row = sinter::ir::row(code);
    const auto arity = static_cast<std::size_t>(row.arity);
    if (code == op::polygamma) {
      // By its order, a whole number, it has no derivative.
      all.push_back({row.name, code, 1, [](const auto& in) { return push(op::polygamma, {in[0].like(1.0), in[0]}); }});
    } else if (row.rule == sinter::ir::dtype_rule::same_size) {
      continue;  // bits, which have no derivative
    } else if (row.rule == sinter::ir::dtype_rule::conversion) {
      all.push_back({row.name, code, 1, [](const auto& in) { return cast(in[0], in[0].type()); }});
    } else if (row.rule == sinter::ir::dtype_rule::selection) {
      for (const bool choice : {false, true})
        all.push_back({std::string(row.name) + (choice ? " true" : " false"), code, arity - 1, [=](const auto& in) {
                         const value any = eq(in[0], in[0]), chosen = choice ? any : bit_not(any);
                         return arity == 3 ? push(code, {chosen, in[0], in[1]}) : push(code, {chosen, in[0]});
                       }});
    } else {
      const dtype in[] = {dtype::f64, dtype::f64, dtype::f64};
      dtype gives{};
      if (sinter::ir::apply(row.rule, in, row.arity, dtype::f64, gives) || gives != dtype::f64) continue;
      all.push_back({row.name, code, arity, [=](const std::vector<value>& x) {
                       if (code == op::root_of_squares) return push(code, {x[0] * x[0]});
                       return arity == 1   ? push(code, {x[0]})
                              : arity == 2 ? push(code, {x[0], x[1]})
                                           : push(code, {x[0], x[1], x[2]});
                     }});
    }
  }
  return all;
}

/// Rows that say, against their values, that a derivative is not there; and sign, which at 0 is on neither side.
bool hides(op code) { return code == op::stop_gradient || code == op::kinked || code == op::sign; }

/// Rows with a first derivative of 0 that no side has: docs/semantics.md. A new row's is a side's, or it stands there.
bool documented(op code) {
  return code == op::abs || code == op::root_of_squares || code == op::hypot || code == op::pow;
}

std::vector<point> points_of(const row_function& row) {
  std::vector<point> all;
  for (double x : numbers)
    if (row.arity == 1) all.push_back({x});
    else
      for (double y : numbers)
        // Differences do not settle where powers vanish like a·log a.
        if (!(row.code == op::pow && x == 0 && y > 1)) all.push_back({x, y});
  return all;
}

}  // namespace

TEST_CASE("every row has the derivatives that differences have, twice, or those of one side, or no number") {
  std::size_t seen = 0;
  for (const auto& row : rows()) {
    if (hides(row.code)) continue;
    CAPTURE(row.name);
    ++seen;
    check(audit(row.f, row.arity, points_of(row)), {documented(row.code), false});
  }
  CHECK(seen > 40);
}

TEST_CASE("functions of rows: no number that is not a derivative") {
  const std::vector<std::pair<const char*, std::function<value(const value&, const value&)>>> outer{
      {"square", [](const value& y, const value&) { return y * y; }},
      {"power 2", [](const value& y, const value&) { return pow(y, 2.0); }},
      {"power 3", [](const value& y, const value&) { return pow(y, 3.0) * 2.0 - y * y; }},
      {"cube", [](const value& y, const value&) { return y * y * -y; }},
      {"product", [](const value& y, const value& x) { return x * y; }},
      {"exp", [](const value& y, const value&) { return exp(y); }},
      {"cos", [](const value& y, const value&) { return cos(y); }},
      {"quotient", [](const value& y, const value& x) { return y * y / (x * x + 1.0); }},
      {"halved", [](const value& y, const value&) { return cast(cast(y, dtype::f64) * y * 0.5, dtype::f64); }},
      {"reshaped",
       [](const value& y, const value&) {
         const value z = reshape(y, {y.extents()[0], 1});
         return reshape(z * z, y.extents());
       }},
  };
  for (const auto& row : rows()) {
    if (hides(row.code)) continue;
    CAPTURE(row.name);
    for (const auto& around : outer) {
      CAPTURE(std::string(around.first));
      const function f = [&](const std::vector<value>& x) { return around.second(row.f(x), x[0]); };
      check(audit(f, row.arity, points_of(row)), {true, true});
    }
  }
}

TEST_CASE("rows of rows: no number that is not a derivative") {
  const auto all = rows();
  for (const auto& outer : all)
    for (const auto& inner : all) {
      if (outer.arity != 1 || inner.arity != 1 || hides(outer.code) || hides(inner.code)) continue;
      CAPTURE(outer.name);
      CAPTURE(inner.name);
      const function f = [&](const std::vector<value>& x) { return outer.f({inner.f(x)}); };
      check(audit(f, 1, points_of(inner)), {true, true});
    }
}

TEST_CASE("powers of 0 above 1 are smooth on their side") {
  std::vector<point> at;
  for (double zero : {0.0, -0.0})
    for (double b : {1.25, 2.0, 2.5, 3.0}) at.push_back({zero, b});
  const audit a([](const auto& x) { return pow(x[0], x[1]); }, 2, at);
  for (std::size_t p = 0; p < at.size(); ++p)
    for (std::size_t i : {0, 1}) {
      CAPTURE(at[p][1]);
      CHECK(a.slope(p, i) == 0);
      CHECK(a.forward_slope(p, i) == 0);
      for (std::size_t j : {0, 1}) {
        const double want = i == 0 && j == 0 && at[p][1] == 2 ? 2 : at[p][1] == 1.25 && i == 0 && j == 0 ? INFINITY : 0;
        CHECK(a.bend(p, i, j) == want);
        CHECK(a.forward_bend(p, i, j) == want);
      }
    }
}
