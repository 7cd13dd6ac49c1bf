// Scans: values on every backend, derivatives against differences, along any axis, in views, of every dtype.
#include "walk.hpp"

namespace {

using namespace sinter;
using ops::array;
using ops::coord;

/// Each element combined with those before it along the axis.
template <class T, class F>
array running(const array& x, std::size_t axis, F combine) {
  return ops::make(x.extents, [&](coord c) {
    const std::int64_t end = c[axis];
    c[axis] = 0;
    double r = ops::get(x, c);
    for (std::int64_t i = 1; i <= end; ++i) {
      c[axis] = i;
      r = ops::rounded<T>(combine(r, ops::get(x, c)));
    }
    return r;
  });
}

const auto plus = [](double a, double b) { return a + b; };
const auto times = [](double a, double b) { return a * b; };
const auto most = [](double a, double b) { return a != a || b != b ? a + b : std::max(a, b); };
const auto least = [](double a, double b) { return a != a || b != b ? a + b : std::min(a, b); };

/// All four along one axis.
template <int Axis, class T, dims Shape>
void rows(ops::walk& w, const tensor<T, Shape>& x) {
  constexpr int R = Shape.rank;
  const array v = ops::values(x);
  constexpr std::size_t at = Axis < 0 ? static_cast<std::size_t>(R + Axis) : static_cast<std::size_t>(Axis);
  const double tolerance = 4 * ops::tolerance_of<T>();
  w.row(
      "cumsum", running<T>(v, at, plus), tolerance, [](auto a) { return cumsum<Axis>(a); }, x);
  w.row(
      "cumprod", running<T>(v, at, times), tolerance, [](auto a) { return cumprod<Axis>(a); }, x);
  w.row(
      "cummax", running<T>(v, at, most), 0, [](auto a) { return cummax(a, axis<Axis>); }, x);
  w.row(
      "cummin", running<T>(v, at, least), 0, [](auto a) { return cummin(a, axis<Axis>); }, x);
}

}  // namespace

TEST_CASE_TEMPLATE("scans of every dtype", T, float, double, std::int32_t, std::int64_t, std::uint64_t, f16) {
  ops::walk w;
  if constexpr (is_float(dtype_of<T>)) {
    rows<-1>(w, ops::between<T, 2>({3, 37}, 0.5, 1.5, 1));
    rows<0>(w, ops::between<T, 2>({9, 70}, 0.5, 1.5, 2));
  } else {
    rows<-1>(w, ops::sample<T, 2>({3, 9}, 1));
    rows<0>(w, ops::sample<T, 2>({9, 70}, 2));
  }
  w.run();
}

TEST_CASE("scans along every axis, of views, of nothing, of one element and of long rows") {
  ops::walk w;
  const auto cube = ops::between<double, 3>({4, 5, 6}, -1.5, 1.5, 3);
  rows<0>(w, cube);
  rows<1>(w, cube);
  rows<2>(w, cube);
  const tensor<double, 3> turned = permute(cube, axis<2, 0, 1>);
  rows<1>(w, turned);
  const tensor<double, 3> backwards = flip<2>(slice<1>(cube, 1, 5, 2));
  rows<2>(w, backwards);
  rows<0>(w, ops::between<double, 1>({1}, 0, 1));
  rows<1>(w, ops::between<double, 2>({3, 1}, 0, 1));
  rows<1>(w, ops::between<double, 2>({0, 4}, 0, 1));
  rows<1>(w, ops::between<double, 2>({4, 0}, 0, 1));
  const auto row = ops::between<double, 1>({1500}, 0.99, 1.01, 4);
  rows<0>(w, row);
  rows<0>(w, ops::between<double, 2>({600, 37}, 0.99, 1.01, 5));
  rows<1>(w, ops::between<double, 3>({2, 300, 3}, 0.99, 1.01, 6));
  w.run();
}

TEST_CASE("a scan reads an expression, and another kernel reads it") {
  ops::walk w;
  const auto x = ops::between<double, 2>({6, 50}, 0.1, 1, 5);
  const array sums = running<double>(ops::map(ops::values(x), [](double v) { return v * 2 + 1; }), 1, plus);
  w.row(
      "of an expression", sums, 1e-12, [](auto a) { return cumsum(a * 2 + 1); }, x);
  w.row(
      "in an expression", ops::map(sums, [](double v) { return v * v; }), 1e-12,
      [](auto a) {
        const auto s = evaluate(cumsum(a * 2 + 1));
        return s * s;
      },
      x);
  w.row(
      "through a reshape", running<double>({{300}, ops::values(x).at}, 0, plus), 1e-12,
      [](auto a) { return cumsum(flatten(a)); }, x);
  w.run();
}

TEST_CASE("NaN and infinities stay in a scan; sums of zeros start at 0, as other sums do") {
  ops::walk w;
  const double nan = std::nan(""), inf = INFINITY;
  const tensor<double, 1> x{1, -inf, 3, nan, 2, inf};
  w.row(
      "cummax", {{6}, {1, 1, 3, nan, nan, nan}}, 0, [](auto a) { return cummax(a); }, x);
  w.row(
      "cummin", {{6}, {1, -inf, -inf, nan, nan, nan}}, 0, [](auto a) { return cummin(a); }, x);
  w.row(
      "cumsum", {{6}, {1, -inf, -inf, nan, nan, nan}}, 0, [](auto a) { return cumsum(a); }, x);
  w.row(
      "cumsum of -0", {{2}, {inf, inf}}, 0, [](auto a) { return 1.0 / cumsum(a); }, tensor<double, 1>{-0., -0.});
  w.row(
      "cumprod of -0", {{2}, {-inf, inf}}, 0, [](auto a) { return 1.0 / cumprod(a); }, tensor<double, 1>{-0., -1.});
  const tensor<std::int32_t, 1> most{2147483647, 1, 1};
  w.row(
      "wraps", {{3}, {2147483647., -2147483648., -2147483647.}}, 0, [](auto a) { return cumsum(a); }, most);
  w.run();
}

TEST_CASE_TEMPLATE("scans with factors, of which the first is unread", T, float, double, std::int32_t) {
  ops::walk w;
  const bool whole = std::is_integral_v<T>;
  for (const auto& [lines, columns] : {std::pair{40, 12}, std::pair{40, 600}, std::pair{600, 12}}) {
    const auto x = ops::between<T, 2>({lines, columns}, whole ? -3 : -1, whole ? 3 : 1, 9);
    for (const std::size_t axis : {std::size_t{0}, std::size_t{1}})
      for (const bool reverse : {false, true}) {
        auto factors = ops::between<T, 2>({lines, columns}, whole ? -1.5 : -1, whole ? 1.5 : 1, 10);
        for (std::int64_t i = 0; i < lines; ++i)
          for (std::int64_t j = 0; j < columns; ++j) {
            const std::int64_t at = axis == 0 ? i : j, first = reverse ? (axis == 0 ? lines : columns) - 1 : 0;
            if (at == first) factors.data()[i * columns + j] = whole ? T(77) : std::numeric_limits<T>::infinity();
          }
        const array vx = ops::values(x), vf = ops::values(factors);
        const array want = ops::make(vx.extents, [&](coord c) {
          const std::int64_t end = c[axis], last = vx.extents[axis] - 1, step = reverse ? -1 : 1;
          double y = 0;
          for (std::int64_t i = reverse ? last : 0; i != end + step; i += step) {
            c[axis] = i;
            if (i != (reverse ? last : 0)) y *= ops::get(vf, c);
            y += ops::get(vx, c);
          }
          return y;
        });
        w.node(
            "recurrence", want, 4 * ops::tolerance_of<T>(),
            [&](ir::graph& g, ir::node_id a, ir::node_id b) {
              ir::attributes attr;
              attr.combiner = ir::op::add;
              attr.ints = {static_cast<std::int64_t>(axis), reverse};
              return g.push(ir::op::scan, {a, b}, attr);
            },
            x, factors);
      }
  }
  w.run();
}

TEST_CASE("derivatives of scans") {
  ops::walk w;
  const auto x = ops::between<double, 2>({3, 7}, -1.5, 1.5, 6);
  const array v = ops::values(x);
  w.smooth(
      "cumsum", running<double>(v, 1, plus), 1e-12, [](auto a) { return cumsum(a); }, x);
  w.smooth(
      "cumsum along 0", running<double>(v, 0, plus), 1e-12, [](auto a) { return cumsum<0>(a); }, x);
  w.smooth(
      "cumprod", running<double>(v, 1, times), 1e-12, [](auto a) { return cumprod(a); }, x);
  w.smooth(
      "cumprod along 0", running<double>(v, 0, times), 1e-12, [](auto a) { return cumprod<0>(a); }, x);
  w.smooth(
      "cummax", running<double>(v, 1, most), 0, [](auto a) { return cummax(a); }, x);
  w.smooth(
      "cummin along 0", running<double>(v, 0, least), 0, [](auto a) { return cummin<0>(a); }, x);
  const tensor<double, 1> zeros{2, 0, 3, 0.5, 0, 4};
  w.smooth(
      "cumprod with zeros", {{6}, {2, 0, 0, 0, 0, 0}}, 1e-12, [](auto a) { return cumprod(a); }, zeros);
  const auto one = ops::between<double, 1>({1}, 0.5, 2);
  w.smooth(
      "cumprod of one", ops::values(one), 0, [](auto a) { return cumprod(a); }, one);
  w.run();
}

namespace {

/// What element c of a row receives from each of the running products of its row, or the last of them alone.
array slopes(const array& x, std::size_t axis, bool all) {
  return ops::make(x.extents, [&](coord c) {
    const std::int64_t at = c[axis], n = x.extents[axis];
    double sum = 0, product = 1;
    for (std::int64_t i = 0; i < n; ++i) {
      c[axis] = i;
      if (i != at) product *= ops::get(x, c);
      if (i >= at && (all || i + 1 == n)) sum += product;
    }
    return sum;
  });
}

}  // namespace

TEST_CASE_TEMPLATE("derivatives of products along rows of several tiles and along columns", T, float, double, f16) {
  ops::walk w;
  const bool small = sizeof(T) < 4;
  const auto x = ops::between<T, 2>({3, small ? 90 : 600}, 0.985, 1.015, 7),
             y = ops::between<T, 2>({9, 70}, -1.5, 1.5, 8);
  x.data()[small ? 30 : 300] = y.data()[5] = y.data()[140] = y.data()[210] = static_cast<T>(0.0);
  const double tolerance = small ? 2e-2 : sizeof(T) == 4 ? 1e-4 : 1e-11;
  const array vx = ops::values(x), vy = ops::values(y);
  w.row(
      "prod along rows", slopes(vx, 1, false), tolerance,
      [](auto a) { return grad([](auto b) { return sum(prod(b, axis<1>)); })(a); }, x);
  w.row(
      "prod along columns", slopes(vy, 0, false), tolerance,
      [](auto a) { return grad([](auto b) { return sum(prod(b, axis<0>, keepdims)); })(a); }, y);
  w.row(
      "cumprod along rows", slopes(vx, 1, true), tolerance,
      [](auto a) { return grad([](auto b) { return sum(cumprod(b)); })(a); }, x);
  w.row(
      "cumprod along columns", slopes(vy, 0, true), tolerance,
      [](auto a) { return grad([](auto b) { return sum(cumprod<0>(b)); })(a); }, y);
  w.run();
}

TEST_CASE("second derivatives of products, at zeros, along one axis and along two") {
  ops::walk w;
  const tensor<double, 2> x{{1, -2, 3, 0.5}, {0, 2, 3, -4}, {0, 0, 0.5, 2}, {0, 3, 0, 0}};
  const auto twice = [&](const char* name, auto multiply) {
    const auto f = [=](const auto& a) { return grad([=](const auto& b) { return sum(multiply(b) * 3.0); })(a) * a; };
    w.smooth(name, ops::values(f(x)), 1e-13, f, x);
  };
  twice("along rows", [](const auto& a) { return prod(a, axis<1>); });
  twice("along columns", [](const auto& a) { return prod(a, axis<0>, keepdims); });
  twice("of two elements", [](const auto& a) { return prod(reshape(a, 8, 2), axis<1>); });
  twice("of all but one row", [](const auto& a) { return prod(slice(a, axis<0>, 0, 1)); });
  w.run();
}

TEST_CASE("second derivatives, ties, and the transforms that compile them") {
  const tensor<double, 1> x{1, 2, 2, 1};
  const auto g = grad([](auto a) { return sum(cummax(a) * tensor<double, 1>{1, 10, 100, 1000}); })(x);
  CHECK(g.to_vector() == std::vector<double>{1, 10, 1100, 0});
  const auto second = grad([](auto a) { return sum(grad([](auto b) { return sum(cumprod(b)); })(a) * a); })(x);
  const auto f = [](const std::vector<double>& a) {  // sum over i of (number of factors) · product
    double r = 0, p = 1;
    for (std::size_t i = 0; i < a.size(); ++i) r += static_cast<double>(i + 1) * (p *= a[i]);
    return r;
  };
  auto at = x.to_vector();
  for (std::size_t i = 0; i < at.size(); ++i) {
    auto up = at, down = at;
    up[i] += 1e-5;
    down[i] -= 1e-5;
    CHECK(second.to_vector()[i] == doctest::Approx((f(up) - f(down)) / 2e-5).epsilon(1e-6));
  }
}
