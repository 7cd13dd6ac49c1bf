// Means, variances, norms and running sums beside a large mean, against long double: on every backend, of rows, columns, inner axes.
#include "walk.hpp"

namespace {

using namespace sinter;
using ops::array;
using ops::coord;

/// Near `base`, apart by a few `steps`: units in the last place of the largest base that is tested.
template <class T, int R>
tensor<T, R> beside(double base, const index_array<R>& extents, double step = 1) {
  auto x = ops::between<T, R>(extents, 0, 1);
  for (std::int64_t i = 0; i < x.numel(); ++i)
    x.data()[i] = static_cast<T>(static_cast<float>(base + step * static_cast<double>((i * 7 + i / 5) % 9)));
  return x;
}

/// Of check_equal, for large values: a unit in the last place.
template <class T>
constexpr double one_unit = std::is_same_v<T, f16>    ? 0x1p-10
                            : std::is_same_v<T, bf16> ? 0x1p-7
                                                      : 0x1p-23;

struct statistics {
  long double mean = 0, var = 0;
};

/// f(its row's statistics, an element) along `axis`; with `one`, of each row.
template <class F>
array along(const array& x, std::size_t axis, bool one, F&& f) {
  coord extents = x.extents;
  extents[axis] = 1;
  std::vector<statistics> rows;
  ops::make(extents, [&](coord c) {
    statistics s;
    const auto n = x.extents[axis];
    for (c[axis] = 0; c[axis] < n; ++c[axis]) s.mean += ops::get(x, c);
    s.mean /= static_cast<long double>(n);
    for (c[axis] = 0; c[axis] < n; ++c[axis]) s.var += (ops::get(x, c) - s.mean) * (ops::get(x, c) - s.mean);
    s.var /= static_cast<long double>(n);
    rows.push_back(s);
    return 0.;
  });
  return ops::make(one ? extents : x.extents, [&](const coord& c) {
    std::size_t row = 0;
    for (std::size_t a = 0; a < c.size(); ++a)
      if (a != axis) row = row * static_cast<std::size_t>(extents[a]) + static_cast<std::size_t>(c[a]);
    return static_cast<double>(f(rows[row], one ? 0 : ops::get(x, c)));
  });
}

template <int Axis, class T, dims Shape>
void spreads(ops::walk& w, const tensor<T, Shape>& x) {
  const array a = ops::values(x);
  const double tolerance = std::is_same_v<T, double> ? 1e-9 : std::max(1e-6, one_unit<T>);
  w.row(
      "mean", along(a, Axis, true, [](auto s, double) { return s.mean; }),
      std::is_same_v<T, double> ? 1e-14 : one_unit<T>, [](auto t) { return mean(t, axis<Axis>, keepdims); }, x);
  w.row(
      "var", along(a, Axis, true, [](auto s, double) { return s.var; }), tolerance,
      [](auto t) { return var(t, axis<Axis>, keepdims); }, x);
  w.row(
      "std", along(a, Axis, true, [](auto s, double) { return std::sqrt(s.var); }), tolerance,
      [](auto t) { return sinter::std(t, axis<Axis>, keepdims); }, x);
  if constexpr (Axis + 1 == Shape.rank)
    w.row(
        "layer_norm",
        along(a, Axis, false, [](auto s, double own) { return (own - s.mean) / std::sqrt(s.var + 1e-5L); }), tolerance,
        [](auto t) { return layer_norm(t); }, x);
}

const auto loss = [](auto x) {
  const auto y = evaluate(layer_norm(x));
  return sum(y * y * y + y * 0.5f);
};

}  // namespace

TEST_CASE_TEMPLATE("a spread beside a large mean keeps its digits", T, float, double) {
  ops::walk w;
  for (const double base : {1., 1e3, 1e6, 1.6e7}) {
    for (const std::int64_t n : {1, 2, 3, 10007}) spreads<0>(w, beside<T, 1>(base, {n}));
    spreads<1>(w, beside<T, 2>(base, {5, 257}));
    spreads<0>(w, beside<T, 2>(base, {1031, 9}));
    spreads<1>(w, beside<T, 3>(base, {3, 65, 4}));
  }
  w.run();
}

TEST_CASE_TEMPLATE("a spread of 16 bits beside a large mean keeps the digits that there are", T, f16, bf16) {
  ops::walk w;
  const bool half = std::is_same_v<T, f16>;
  for (const double base : half ? std::vector{1., 1000., 2e4, 6e4} : std::vector{1., 200., 6e4, 1e30}) {
    // Its unit in the last place, of 11 bits or of 8.
    const double step = std::max(1., std::ldexp(1., std::ilogb(base) - (half ? 10 : 7)));
    // A variance has the square of the unit.
    if (step > 1e10) {
      w.row(
          "mean", {{1}, {base}}, one_unit<T>, [](auto t) { return mean(t, axis<0>, keepdims); },
          full<T>(static_cast<T>(static_cast<float>(base)), 10007));
      continue;
    }
    for (const std::int64_t n : {1, 2, 3, 5003}) spreads<0>(w, beside<T, 1>(base, {n}, step));
    spreads<1>(w, beside<T, 2>(base, {5, 257}, step));
    spreads<0>(w, beside<T, 2>(base, {1031, 9}, step));
    spreads<1>(w, beside<T, 3>(base, {3, 65, 4}, step));
  }
  w.run();
}

TEST_CASE("random numbers beside a large mean") {
  ops::walk w;
  int seed = 0;
  for (const auto& [base, width] : {std::pair(1., 1.), std::pair(1e6, 1.), std::pair(1e6, 1e3)}) {
    const auto low = base - width / 2, high = base + width / 2;
    spreads<0>(w, ops::between<float, 1>({20011}, low, high, ++seed));
    spreads<1>(w, ops::between<float, 2>({9, 1027}, low, high, ++seed));
    spreads<0>(w, ops::between<float, 2>({4099, 5}, low, high, ++seed));
    spreads<1>(w, ops::between<float, 3>({3, 130, 7}, low, high, ++seed));
  }
  w.run();
}

template <int Axis, class T, dims Shape>
static void magnitudes(ops::walk& w, const tensor<T, Shape>& x) {
  const array a = ops::values(x);
  const double tolerance = std::max(1e-6, one_unit<T>);
  const auto squares = [&](bool one, auto f) {
    return along(a, Axis, one, [&](auto s, double own) { return f(s.var + s.mean * s.mean, own); });
  };
  const auto n = static_cast<long double>(x.shape()[Axis]);
  if constexpr (!std::is_same_v<T, f16>)
    w.row(
        "norm", squares(true, [&](auto mean, double) { return std::sqrt(mean * n); }), tolerance,
        [](auto t) { return norm(t, axis<Axis>, keepdims); }, x);
  if constexpr (Axis + 1 == Shape.rank)
    w.row(
        "rms_norm", squares(false, [](auto mean, double own) { return own / std::sqrt(mean + 1e-5L); }), tolerance,
        [](auto t) { return rms_norm(t); }, x);
}

TEST_CASE_TEMPLATE("norms of large magnitudes", T, float, f16, bf16) {
  ops::walk w;
  int seed = 0;
  for (const double size : std::is_same_v<T, f16> ? std::vector{1., 6e4} : std::vector{1., 1e6, 1e16})
    for (const double low : {-size, size / 2}) {
      magnitudes<0>(w, ops::between<T, 1>({10007}, low, size, ++seed));
      magnitudes<1>(w, ops::between<T, 2>({5, 257}, low, size, ++seed));
      magnitudes<0>(w, ops::between<T, 2>({1031, 9}, low, size, ++seed));
    }
  w.run();
}

TEST_CASE("equal numbers have no spread, and nothing becomes less than 0") {
  ops::walk w;
  const auto x = full<float>(1234567.9f, 3, 1001);
  w.row(
      "std", {{3}, {0, 0, 0}}, 0, [](auto t) { return sinter::std(t, axis<1>) * 1e6f; }, x);
  w.run();
}

/// One row of `size` and -`size`, as a row, as columns and along an inner axis.
template <class F>
static void in_three_places(ops::walk& w, const char* name, float size, int n, double want, F f) {
  auto x = full<float>(size, 2, n);
  for (std::int64_t i = 0; i < x.numel(); i += 3) x.data()[i] = -size;
  const auto at = [&](std::int64_t k) { return array{{k}, std::vector(static_cast<std::size_t>(k), want)}; };
  w.row(
      name, at(2), 0, [&](auto t) { return f(t, axis<1>); }, x);
  w.row(
      name, at(2), 0, [&](auto t) { return f(t, axis<0>); }, sinter::detail::evaluate(transpose(x), location{}));
  w.row(
      name, at(4), 0, [&](auto t) { return reshape(f(t, axis<1>), 4); }, reshape(stack<2>(x, x), 2, n, 2));
}

TEST_CASE("a variance that is too large is infinite") {
  ops::walk w;
  for (const int n : {2, 7, 40, 2003})
    for (const float size : {1e25f, 3e36f}) {
      in_three_places(w, "var", size, n, INFINITY, [](auto t, auto a) { return var(t, a); });
      in_three_places(w, "std", size, n, INFINITY, [](auto t, auto a) { return sinter::std(t, a); });
    }
  w.run();
}

/// x · size, of numbers that are the same whatever the size.
template <class T, int R>
static tensor<T, R> sized(const index_array<R>& extents, double size, bool centred) {
  auto x = ops::between<T, R>(extents, 0, 1);
  for (std::int64_t i = 0; i < x.numel(); ++i)
    x.data()[i] =
        static_cast<T>(static_cast<float>(size * (static_cast<double>(i * 7 % 16) - (centred ? 7.5 : 3)) / 4));
  return x;
}

/// Norms along an axis and of all, over `size`; rows of norms, whose derivatives are multiplied by it.
template <int Axis, class T, int R>
static void at_size(ops::walk& w, const index_array<R>& extents, double size) {
  const double tolerance = std::max(2e-6, one_unit<T>);
  const float less = static_cast<float>(1 / size);
  const tensor<T, R> x = sized<T, R>(extents, size, false);
  array a = ops::values(x);
  for (double& v : a.at) v /= size;
  const auto n = static_cast<long double>(extents[Axis]);
  const auto scaled = [=](auto t) { return cast<float>(t) * less; };
  w.row(
      "norm", along(a, Axis, true, [&](auto s, double) { return std::sqrt((s.var + s.mean * s.mean) * n); }), tolerance,
      [=](auto t) { return scaled(norm(t, axis<Axis>, keepdims)); }, x);
  long double all = 0;
  for (const double v : a.at) all += static_cast<long double>(v) * static_cast<long double>(v);
  w.row(
      "norm of all", array{{}, {static_cast<double>(std::sqrt(all))}}, tolerance,
      [=](auto t) { return scaled(norm(t)); }, x);
  w.row(
      "gradient of norm",
      along(a, Axis, false, [&](auto s, double own) { return own / std::sqrt((s.var + s.mean * s.mean) * n); }),
      tolerance, [](auto t) { return grad([](auto u) { return sum(cast<float>(norm(u, axis<Axis>))); })(t); }, x);
  if constexpr (Axis + 1 == R) {
    const bool hidden = size < 1e-3;  // by an eps of f32
    w.row(
        "rms_norm", along(a, Axis, false, [&](auto s, double own) { return own / std::sqrt(s.var + s.mean * s.mean); }),
        tolerance, [=](auto t) { return rms_norm(t, hidden ? 0. : 1e-5); }, x);
    w.row(
        "layer_norm", along(a, Axis, false, [](auto s, double own) { return (own - s.mean) / std::sqrt(s.var); }),
        4 * tolerance, [=](auto t) { return layer_norm(t, hidden ? 0. : 1e-5); }, x);
  }
}

TEST_CASE_TEMPLATE("squares beyond the range of f32 leave norms as they are", T, float, bf16) {
  ops::walk w;
  for (const double size :
       std::is_same_v<T, float> ? std::vector{1e30, 1e19, 1e-25, 1e-36} : std::vector{1e30, 1e-25}) {
    for (const std::int64_t n : {4, 100}) at_size<1, T, 2>(w, {5, n}, size);
    at_size<0, T, 2>(w, {70, 9}, size);
    at_size<0, T, 2>(w, {150, 37}, size);
    at_size<0, T, 1>(w, {5003}, size);
    at_size<1, T, 3>(w, {2, 65, 4}, size);
  }
  w.run();
}

TEST_CASE("gradients of norms whose squares are beyond f32 are those of f64") {
  const auto check = [](auto f, double size) {
    const auto x = sized<float, 2>({3, 131}, size, false);
    const tensor<double, 2> wide = cast<double>(x);
    array want = ops::values(grad(f)(wide));
    for (double& v : want.at) v *= size;
    const auto slope = [=](const tensor<float, 2>& t) { return evaluate(grad(f)(t) * static_cast<float>(size)); };
    ops::check_equal(ops::values(slope(x)), want, 2e-5);
    ops::check_equal(ops::values(compile(slope)(x)), want, 2e-5);
    ops::check_equal(ops::values(compile(slope, {.backend = "reference"})(x)), want, 2e-5);
  };
  for (const double size : {1e30, 1e20, 1e-20, 1e-25}) {
    const double eps = size < 1 ? 0 : 1e-5;
    check(
        [=](auto x) {
          const auto y = evaluate(layer_norm(x, eps));
          return sum(y * y * y);
        },
        size);
    check(
        [=](auto x) {
          const auto y = evaluate(rms_norm(x, eps));
          return sum(y * y * y);
        },
        size);
  }
}

TEST_CASE("norms of columns whose neighbours are beyond f32 are those of f64") {
  const float sizes[] = {1, 1e30f, 1e-25f, 0, 3, NAN, INFINITY, 1e-30f};
  using matrix = tensor<float, 2>;
  for (const auto& [rows, columns] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{3, 20}, {70, 37}, {150, 130}, {130, 600}, {601, 200}}) {
    matrix x = ops::between<float, 2>({rows, columns}, 1, 2), less = full<float>(1, 1, columns);
    array norms{{1, columns}, std::vector<double>(static_cast<std::size_t>(columns))};
    array units{{rows, columns}, std::vector<double>(static_cast<std::size_t>(x.numel()))};
    for (std::int64_t c = 0; c < columns; ++c) {
      const float size = sizes[c % 8];
      if (std::isfinite(size) && size > 0) less(0, c) = 1 / size;
      long double all = 0;
      for (std::int64_t r = 0; r < rows; ++r) {
        x(r, c) = std::isfinite(size) ? x(r, c) * size : r == rows / 2 ? size : x(r, c);
        all += static_cast<long double>(x(r, c)) * static_cast<long double>(x(r, c));
      }
      norms.at[static_cast<std::size_t>(c)] = static_cast<double>(std::sqrt(all)) * less(0, c);
      for (std::int64_t r = 0; r < rows; ++r)
        units.at[static_cast<std::size_t>(r * columns + c)] =
            all == 0 ? 0 : static_cast<double>(static_cast<long double>(x(r, c)) / std::sqrt(all));
    }
    const auto norm_of = [](const matrix& t) { return evaluate(norm(t, axis<0>, keepdims)); };
    const auto slope = [=](const matrix& t) { return grad([=](const matrix& u) { return sum(norm_of(u)); })(t); };
    for (const auto sizes_of : {dynamic::no, dynamic::yes}) {
      const auto o = sinter::options{.dynamic = sizes_of};
      const auto f = compile([=](const matrix& t, const matrix& by) { return evaluate(norm_of(t) * by); }, o);
      ops::check_equal(ops::values(f(x, less)), norms, 2e-6);
      ops::check_equal(ops::values(compile(slope, o)(x)), units, 2e-6);
    }
  }
}

TEST_CASE("squares that are added up again are of what was there before a result took its memory") {
  const auto f = compile(
      [](tensor<float, 2> x) {
        const auto y = evaluate(x * 2.f);
        return std::pair(y, evaluate(norm(y, axis<0>) * 1e-30f));
      },
      {.donate = {0}});
  const auto [y, n] = f(full<float>(3e29f, 64, 640));
  ops::check_equal(ops::values(y), array{{64, 640}, std::vector<double>(64 * 640, 6e29f)}, 1e-6);
  ops::check_equal(ops::values(n), array{{640}, std::vector<double>(640, 4.8)}, 2e-6);
}

TEST_CASE("rows with NaN and infinities, and rows of zeros, have norms of their own") {
  auto x = full<float>(3e30f, 6, 70);
  for (std::int64_t i = 0; i < 70; ++i) x(1, i) = 0.f, x(4, i) = 1e-30f;
  x(2, 5) = NAN;
  x(3, 69) = -INFINITY;
  ops::walk w;
  w.row(
      "norm", array{{6}, {std::sqrt(70.) * 3, 0, NAN, INFINITY, 0, std::sqrt(70.) * 3}}, 2e-6,
      [](auto t) { return norm(t, axis<1>) * 1e-30f; }, x);
  array want{{6, 70}, std::vector<double>(420, 1)};
  for (std::size_t i = 0; i < 70; ++i) want.at[70 + i] = 0, want.at[140 + i] = NAN, want.at[210 + i] = 0;
  want.at[210 + 69] = NAN;
  for (std::size_t i = 0; i < 70; ++i) want.at[280 + i] = 1e-30 / std::sqrt(1e-5);
  w.row(
      "rms_norm", want, 2e-6, [](auto t) { return rms_norm(t); }, x);
  w.run();
}

TEST_CASE_TEMPLATE("rows whose sum is beyond f32 are normalised", T, float, bf16) {
  const double tolerance = 4 * std::max(2e-6, one_unit<T>);
  const auto f = [](const auto& t) { return layer_norm(t); };
  const auto open = compile([=](const tensor<T, 2>& t) { return tensor<T, 2>(f(t)); }, {.dynamic = dynamic::yes});
  ops::walk w;
  for (const std::int64_t n : {4, 16, 100, 5003}) {
    tensor<T, 2> x = sized<T, 2>({5, n}, 1e38, false);
    // Sums are beyond f32 on their way alone.
    for (std::int64_t i = 0; i < n; ++i) x(3, i) = static_cast<T>(i < n / 2 ? 3e38f : -2.5e38f + 1e37f * (i % 7));
    const array want =
        along(ops::values(x), 1, false, [](auto s, double own) { return (own - s.mean) / std::sqrt(s.var); });
    w.row("layer_norm", want, tolerance, f, x);
    ops::check_equal(ops::values(open(x)), want, tolerance);
  }
  CHECK(open.specialisations() == 1);
  w.run();
}

TEST_CASE("gradients of rows whose sum is beyond f32") {
  const float size = 1e36f;
  const auto x = sized<float, 2>({3, 1000}, size, false);
  const auto slope = [=](const auto& t) {
    return evaluate(grad([](const auto& u) {
                      const auto y = evaluate(layer_norm(u));
                      return sum(y * y * y) * 0.02f;
                    })(t) *
                    size);
  };
  const array want = ops::values(slope(tensor<double, 2>(cast<double>(x))));
  ops::check_equal(ops::values(slope(x)), want, 2e-5);
  for (const std::string backend : {"cpu", "reference"})
    ops::check_equal(ops::values(compile(slope, {.backend = backend})(x)), want, 2e-5);
}

TEST_CASE("an eps that the dtype does not hold is 0") {
  ops::walk w;
  for (const int n : {3, 7, 40, 2003}) {
    const auto x = full<float>(2.5f, 3, n);
    const array want{{3, n}, std::vector(static_cast<std::size_t>(3 * n), double(NAN))};
    w.row(
        "layer_norm", want, 0, [](auto t) { return layer_norm(t, 1e-60); }, x);
    w.row(
        "rms_norm", want, 0, [](auto t) { return rms_norm(t, 1e-60); }, full<float>(0.f, 3, n));
  }
  w.run();
}

TEST_CASE("the mean of a row is off by one unit in its last place") {
  const auto f = [](const tensor<float, 1>& x) { return mean(x); };
  const auto on_cpu = compile(f);
  const auto interpreted = compile(f, {.backend = "reference"});
  ops::walk w;
  for (const double base : {1., 1e3, 1e6, 1.6e7})
    for (const std::int64_t n : {1, 2, 3, 1001, 10007, 999983}) {
      const auto x = beside<float, 1>(base, {n});
      const array want = along(ops::values(x), 0, true, [](auto s, double) { return s.mean; });
      const double ulp = std::nextafter(static_cast<float>(want.at[0]), INFINITY) - static_cast<float>(want.at[0]);
      INFO("n ", n, " base ", base);
      CHECK(std::abs(f(x).item() - want.at[0]) <= ulp);
      CHECK(std::abs(on_cpu(x).item() - want.at[0]) <= ulp);
      CHECK(std::abs(interpreted(x).item() - want.at[0]) <= ulp);
      w.row(
          "mean", {{}, want.at}, one_unit<float>, [](auto t) { return mean(t); }, x);
    }
  w.run();
}

TEST_CASE("the gradient of layer_norm beside a large mean") {
  for (const double base : {1., 1e6, 1.6e7}) {
    const auto x = beside<float, 2>(base, {7, 131});
    const array want = ops::values(grad(loss)(beside<double, 2>(base, {7, 131})));
    const auto slope = grad([](const tensor<float, 2>& t) { return loss(t); });
    ops::check_equal(ops::values(slope(x)), want, 1e-5);
    ops::check_equal(ops::values(compile(slope)(x)), want, 1e-5);
    ops::check_equal(ops::values(compile(slope, {.backend = "reference"})(x)), want, 1e-5);
  }
}

TEST_CASE("a long running sum is off by its last rounding") {
  ops::walk w;
  const auto check = [&](const auto& x, auto f, bool along_columns) {
    array want = ops::values(x);
    const std::int64_t columns = along_columns ? 9 : 1;
    for (std::size_t i = static_cast<std::size_t>(columns); i < want.at.size(); ++i)
      want.at[i] += want.at[i - static_cast<std::size_t>(columns)];
    w.row("cumsum", want, 3e-7, f, x);
  };
  check(
      full<float>(0.1f, 300001), [](auto t) { return cumsum(t); }, false);
  check(
      full<float>(0.1f, 30001, 9), [](auto t) { return cumsum<0>(t); }, true);
  w.run();
}

TEST_CASE("the derivative of a long running sum is as exact") {
  ops::walk w;
  const auto check = [&](const auto& x, auto f, std::int64_t columns) {
    // Of the sum of the squares of y, the running sum: twice the sum of y from there on.
    array want = ops::values(x);
    const auto step = static_cast<std::size_t>(columns);
    for (std::size_t i = step; i < want.at.size(); ++i) want.at[i] += want.at[i - step];
    for (std::size_t i = want.at.size() - step; i-- > 0;) want.at[i] += want.at[i + step];
    for (double& v : want.at) v *= 2;
    w.row("grad cumsum", want, 5e-7, f, x);
  };
  const auto slope = [](auto along) {
    return [=](auto t) {
      return grad([&](auto u) {
        const auto y = evaluate(along(u));
        return sum(y * y);
      })(t);
    };
  };
  check(ops::between<float, 1>({100003}, 0.1, 0.2), slope([](const auto& u) { return cumsum(u); }), 1);
  check(ops::between<float, 2>({20011, 5}, 0.1, 0.2), slope([](const auto& u) { return cumsum<0>(u); }), 5);
  w.run();
}
