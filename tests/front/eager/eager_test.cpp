// tests/front/eager/eager_test.cpp: the fused loops: odd shapes, views, broadcasts, reductions, accuracy.
#include <doctest/doctest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sinter/front/eager/reduce.hpp>
#include <sinter/sinter.hpp>
#include <string>

#include "../ops_support.hpp"

using namespace sinter;

// Types whose loops differ from those of the others in the width of their elements alone.
#if defined(SINTER_TEST_LEAN)
#define SINTER_ALSO(...)
#else
#define SINTER_ALSO(...) , __VA_ARGS__
#endif

namespace {

/// x with reversed axes, every stride doubled or negated, in storage of its own.
template <class T>
tensor<T, 3> scattered(const tensor<T, 3>& x, bool reverse) {
  const auto e = x.shape();
  const auto room = zeros<T>(2 * e[0], e[1], 2 * e[2]);
  const auto s = room.strides();
  index_array<3> strides{2 * s[0], s[1], 2 * s[2]};
  T* first = room.data();
  if (reverse && room.numel() > 0) {
    first += strides[2] * (e[2] - 1) + strides[0] * (e[0] - 1);
    strides[0] *= -1;
    strides[2] *= -1;
  }
  const auto view = detail::access::make<T, dims(3)>(detail::access::memory(room), first, e, strides);
  for (std::int64_t i = 0; i < e[0]; ++i)
    for (std::int64_t j = 0; j < e[1]; ++j)
      for (std::int64_t k = 0; k < e[2]; ++k) view(i, j, k) = x(i, j, k);
  return view;
}

const index_array<3> shapes[] = {{3, 5, 7},  {1, 1, 1}, {2, 1, 9}, {1, 33, 1},
                                 {4, 17, 3}, {0, 3, 2}, {3, 2, 0}, {64, 40, 33}};

/// An array of `value`, of x's extents without `axes`.
ops::array without(const ops::array& x, const std::vector<int>& axes, double value) {
  ops::coord kept;
  for (std::size_t i = 0; i < x.extents.size(); ++i)
    if (std::find(axes.begin(), axes.end(), static_cast<int>(i)) == axes.end()) kept.push_back(x.extents[i]);
  return ops::make(kept, [&](const ops::coord&) { return value; });
}

/// f(element, where in what is left without `axes` it counts) for the elements of x in row-major order.
template <class F>
void for_each_reduced(const ops::array& x, const std::vector<int>& axes, F&& f) {
  const std::size_t rank = x.extents.size();
  ops::coord stride(rank, 0), c(rank, 0);
  std::int64_t step = 1, to = 0;
  for (std::size_t i = rank; i-- > 0;)
    if (std::find(axes.begin(), axes.end(), static_cast<int>(i)) == axes.end()) {
      stride[i] = step;
      step *= x.extents[i];
    }
  for (const double v : x.at) {
    f(v, static_cast<std::size_t>(to));
    for (std::size_t i = rank; i-- > 0;) {
      to += stride[i];
      if (++c[i] < x.extents[i]) break;
      to -= stride[i] * c[i];
      c[i] = 0;
    }
  }
}

/// The reduction of x's elements over `axes`, by a plain loop.
template <class F>
ops::array reduced(const ops::array& x, const std::vector<int>& axes, double start, F&& f) {
  ops::array out = without(x, axes, start);
  double* const at = out.at.data();
  for_each_reduced(x, axes, [&](double v, std::size_t to) { at[to] = f(at[to], v); });
  return out;
}

template <ir::op C, int Kept, class E>
auto reduce(const E& e, const std::vector<int>& axes) {
  return detail::eager_reduce<C, dims(Kept)>(e, axes.data(), static_cast<int>(axes.size()), {});
}

template <class T, class E, class F>
void check_reductions(const E& e, const ops::array& x, const std::vector<int>& axes, F&& reduce_all) {
  const double tolerance = std::max(ops::tolerance_of<T>(), 1e-14);
  const auto worst = std::numeric_limits<double>::infinity();
  reduce_all(e, axes, [&](const auto& sum, const auto& top, const auto& bottom) {
    ops::check_equal(ops::values(sum), reduced(x, axes, 0, [](double a, double b) { return a + b; }), tolerance);
    if (top.numel() == 0 || x.at.empty()) return;
    ops::check_equal(ops::values(top), reduced(x, axes, -worst, [](double a, double b) { return std::max(a, b); }),
                     tolerance);
    ops::check_equal(ops::values(bottom), reduced(x, axes, worst, [](double a, double b) { return std::min(a, b); }),
                     tolerance);
  });
}

template <class T, class E>
void check_all_axes(const E& e, const ops::array& x) {
  const auto over = [&]<int Kept>(std::initializer_list<std::vector<int>> lists) {
    for (const auto& axes : lists)
      check_reductions<T>(e, x, axes, [](const auto& f, const std::vector<int>& a, auto&& then) {
        const auto sum = reduce<ir::op::add, Kept>(f, a);
        // Nothing has no maximum.
        const bool nothing = f.numel() == 0;
        then(sum, nothing ? sum : reduce<ir::op::maximum, Kept>(f, a),
             nothing ? sum : reduce<ir::op::minimum, Kept>(f, a));
      });
  };
  over.template operator()<2>({{0}, {1}, {2}});
  over.template operator()<1>({{0, 1}, {2, 0}, {1, 2}});
  over.template operator()<0>({{0, 1, 2}});
}

/// The variance of x along `axes`, by plain loops; `near` is not far from the mean.
ops::array variance_of(const ops::array& x, const std::vector<int>& axes, int ddof, double near = 0) {
  double n = 1;
  for (const int a : axes) n *= static_cast<double>(x.extents[static_cast<std::size_t>(a)]);
  const auto sum = reduced(x, axes, 0, [&](double a, double b) { return a + (b - near); });
  auto out = reduced(x, axes, 0, [&](double a, double b) { return a + (b - near) * (b - near); });
  for (std::size_t i = 0; i < out.at.size(); ++i)
    out.at[i] = (out.at[i] - sum.at[i] * sum.at[i] / n) / std::max(n - ddof, 0.0);
  return out;
}

/// The position of x's first extreme over `axes`, by a plain loop; `sign` is -1 for the smallest. NaN is extreme.
ops::array first_extreme(const ops::array& x, const std::vector<int>& axes, double sign) {
  ops::array out = without(x, axes, -1), seen = without(x, axes, 0), best = seen;
  for_each_reduced(x, axes, [&](double v, std::size_t k) {
    v *= sign;
    if (out.at[k] < 0 || (!std::isnan(best.at[k]) && !(v <= best.at[k]))) {
      best.at[k] = v;
      out.at[k] = seen.at[k];
    }
    ++seen.at[k];
  });
  return out;
}

/// argmax and argmin of an expression of rank 3 along each axis and over all, where there is something.
template <class E>
void check_extremes(const E& e) {
  const auto x = ops::values(e);
  const auto along = [&]<int Axis>() {
    if (x.extents[Axis] == 0) return;
    ops::check_equal(ops::values(argmax(e, axis<Axis>)), first_extreme(x, {Axis}, 1), 0);
    auto want = first_extreme(x, {Axis}, -1);
    ops::check_equal(ops::values(argmin(e, axis<Axis>)), want, 0);
    want.extents.insert(want.extents.begin() + Axis, 1);
    ops::check_equal(ops::values(argmin(e, axis<Axis - 3>, keepdims)), want, 0);
  };
  along.template operator()<0>();
  along.template operator()<1>();
  along.template operator()<2>();
  if (x.at.empty()) return;
  ops::check_equal(ops::values(argmax(e)), first_extreme(x, {0, 1, 2}, 1), 0);
  ops::check_equal(ops::values(argmin(e)), first_extreme(x, {0, 1, 2}, -1), 0);
}

/// f(axis<...>, the same axes as a list) for each set of axes of a tensor of rank 3.
template <class F>
void for_each_axes(F&& f) {
  f(axis<0>, std::vector<int>{0});
  f(axis<1>, std::vector<int>{1});
  f(axis<2>, std::vector<int>{2});
  f(axis<0, 1>, std::vector<int>{0, 1});
  f(axis<-1, 0>, std::vector<int>{0, 2});
  f(axis<1, 2>, std::vector<int>{1, 2});
  f(axis<>, std::vector<int>{0, 1, 2});
}

/// Calls f with no more memory than there is and `bytes`.
template <class F>
void within(std::size_t bytes, F&& f) {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  rlimit limit = before;
  limit.rlim_cur = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + bytes;
  REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
  CHECK_NOTHROW(f());
  REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
}

}  // namespace

TEST_CASE_TEMPLATE("pointwise loops over odd shapes and views", T, std::int16_t, float,
                   f16 SINTER_ALSO(int, std::int64_t, double)) {
  for (const auto& shape : shapes) {
    const auto a = ops::sample<T, 3>(shape, 1), b = ops::sample<T, 3>(shape, 2);
    const auto want = ops::make({shape.begin(), shape.end()}, [&](const ops::coord& c) {
      return static_cast<double>(a(c[0], c[1], c[2])) * 2 + static_cast<double>(b(c[0], c[1], c[2])) - 1;
    });
    const double tolerance = ops::tolerance_of<T>();
    for (const bool reverse : {false, true}) {
      ops::check_equal(ops::values(a * 2 + b - 1), want, tolerance);
      ops::check_equal(ops::values(scattered(a, reverse) * 2 + b - 1), want, tolerance);
      ops::check_equal(ops::values(a * 2 + scattered(b, reverse) - 1), want, tolerance);
    }
    ops::check_equal(ops::values(detail::materialize(scattered(a, true), {})), ops::values(a), 0);
  }
}

TEST_CASE("a large loop splits between threads without gaps") {
  const auto x = arange<std::int64_t>(300007);
  const auto y = evaluate(x * 3 - 1).to_vector();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < y.size(); ++i) wrong += y[i] != static_cast<std::int64_t>(i) * 3 - 1;
  CHECK(wrong == 0);
  const auto square = evaluate(ops::sample<float, 2>({700, 1}) + ops::sample<float, 2>({1, 531}));
  CHECK(square(699, 530) == ops::sample<float, 2>({700, 1})(699, 0) + ops::sample<float, 2>({1, 531})(0, 530));
  CHECK(square(350, 17) == ops::sample<float, 2>({700, 1})(350, 0) + ops::sample<float, 2>({1, 531})(0, 17));
}

TEST_CASE_TEMPLATE("reductions of expressions over every set of axes", T, float, f16 SINTER_ALSO(int, double)) {
  for (const auto& shape : shapes) {
    const auto a = ops::sample<T, 3>(shape, 1), b = ops::sample<T, 3>(shape, 2);
    const auto x = ops::make({shape.begin(), shape.end()}, [&](const ops::coord& c) {
      return static_cast<double>(a(c[0], c[1], c[2])) * static_cast<double>(b(c[0], c[1], c[2]));
    });
    check_all_axes<T>(a * b, x);
    check_all_axes<T>(scattered(a, true) * b, x);
  }
}

TEST_CASE("long reductions are cut into pieces and joined") {
  for (const auto& shape :
       {index_array<3>{70000, 3, 1}, {2, 50000, 2}, {3, 9, 12000}, {40000, 1, 9}, {1, 10000, 300}}) {
    const auto a = ops::sample<float, 3>(shape, 4);
    const auto x = ops::values(a);
    const auto over = [&]<int Kept>(const std::vector<int>& axes) {
      ops::check_equal(ops::values(reduce<ir::op::add, Kept>(a, axes)),
                       reduced(x, axes, 0, [](double p, double q) { return p + q; }), 1e-6);
    };
    over.template operator()<2>({0});
    over.template operator()<2>({1});
    over.template operator()<1>({0, 1});
    over.template operator()<1>({0, 2});
    over.template operator()<0>({0, 1, 2});
  }
}

TEST_CASE_TEMPLATE("variances of expressions over every set of axes", T, float, f16 SINTER_ALSO(double, bf16)) {
  const double tolerance = ops::tolerance_of<T>();
  for (const auto& shape : shapes) {
    const auto a = ops::sample<T, 3>(shape, 1), b = ops::sample<T, 3>(shape, 2);
    const auto x = ops::make({shape.begin(), shape.end()}, [&](const ops::coord& c) {
      return static_cast<double>(a(c[0], c[1], c[2])) * static_cast<double>(b(c[0], c[1], c[2]));
    });
    for_each_axes([&](auto where, const std::vector<int>& axes) {
      for (const int ddof : {1, 2}) {
        auto want = variance_of(x, axes, ddof);
        ops::check_equal(ops::values(var(a * b, where, ddof)), want, tolerance);
        ops::check_equal(ops::values(var(scattered(a, true) * b, where, ddof)), want, tolerance);
        for (double& v : want.at) v = std::sqrt(v);
        for (const int k : axes) want.extents.insert(want.extents.begin() + k, 1);
        ops::check_equal(ops::values(sinter::std(a * b, where, keepdims, ddof)), want, tolerance);
      }
    });
  }
  // Where the sum of all, or the square of one, is no f32.
  if constexpr (std::is_same_v<T, float>) {
    CHECK(var(full<T>(1e38f, 5000, 9) * 2, axis<0>).to_vector() == std::vector<T>(9, 0.f));
    CHECK(var(ops::sample<T, 1>({5000}) * 1e25f).item() == std::numeric_limits<T>::infinity());
  }
  const tensor<T, 0> one(T(3.f));
  CHECK(static_cast<float>(var(one * 2).item()) == 0);
  CHECK(static_cast<float>(sinter::std(full<T>(T(0.1f), 3000) * 3).item()) == 0);
}

TEST_CASE_TEMPLATE("variances of values far from 0 keep their digits, in blocks, chunks and columns", T,
                   float SINTER_ALSO(double)) {
  const double tolerance = sizeof(T) == 4 ? 3e-6 : 1e-10;
  for (const auto& shape : {index_array<3>{40000, 1, 3}, {2, 2, 40000}, {1, 300, 300}, {4200, 1, 9}, {3, 3000, 2}}) {
    const auto a = ops::sample<T, 3>(shape, 4);
    for (const bool begins_apart : {false, true}) {
      if (begins_apart) a.data()[0] = 1000;
      const auto e = a * T(1e-2) + T(1e4);
      const auto x = ops::values(e);
      for_each_axes([&](auto where, const std::vector<int>& axes) {
        auto got = ops::values(var(e, where));
        auto want = variance_of(x, axes, 0, 1e4);
        REQUIRE(got.extents == want.extents);
        for (std::size_t i = 0; i < got.at.size(); ++i) {
          const double scale = std::max(want.at[i], 1e-9);
          got.at[i] /= scale;
          want.at[i] /= scale;
        }
        ops::check_equal(got, want, tolerance);
      });
    }
  }
}

TEST_CASE_TEMPLATE("NaN and infinities reach the variances that they are part of, and no other", T,
                   float SINTER_ALSO(double)) {
  const T inf = std::numeric_limits<T>::infinity();
  for (const T bad : {std::numeric_limits<T>::quiet_NaN(), inf, -inf})
    for (const std::int64_t at : {0, 4999}) {
      const auto x = ops::sample<T, 2>({5000, 40});
      x(at, 7) = bad;
      const auto columns = var(x * 2, axis<0>).to_vector();
      for (std::size_t j = 0; j < columns.size(); ++j) CHECK(std::isnan(columns[j]) == (j == 7));
      const auto rows = var(transpose(x) * 2, axis<1>).to_vector();
      for (std::size_t j = 0; j < rows.size(); ++j) CHECK(std::isnan(rows[j]) == (j == 7));
      CHECK(std::isnan(sinter::std(x * 2).item()));
    }
}

TEST_CASE_TEMPLATE("the first extremes of expressions, in blocks, chunks and columns", T, std::int8_t, float, double,
                   f16 SINTER_ALSO(std::uint16_t, int, long long, std::uint64_t, bf16)) {
  for (const auto& shape : shapes) {
    const auto a = ops::sample<T, 3>(shape, 1), b = ops::sample<T, 3>(shape, 2);
    check_extremes(a * b);
    check_extremes(scattered(a, true) * b);
    check_extremes(permute<2, 0, 1>(a) * permute<2, 0, 1>(b));
    check_extremes(a);
  }
  // Ties: few values in many elements. All are products of tensors: each type of expression is one more set of loops to compile.
  const auto one = ones<T>(1, 1, 1);
  for (const auto& shape : {index_array<3>{40000, 1, 3}, {2, 2, 40000}, {1, 300, 300}, {4200, 1, 9}, {3, 3000, 2}}) {
    const auto a = ops::sample<T, 3>(shape, 4);
    check_extremes(cast<T>(a > T(0.f)).eval() * one);
    check_extremes(full<T>(T(3.f), shape[0], shape[1], shape[2]) * one);
  }
  CHECK(argmax(tensor<T, 0>(T(3.f)) * T(2.f)).item() == 0);
}

TEST_CASE_TEMPLATE("the first NaN is the extreme, an infinity one like any number", T, float SINTER_ALSO(double, f16)) {
  using limits = std::numeric_limits<double>;
  for (const double bad : {limits::quiet_NaN(), limits::infinity(), -limits::infinity()})
    for (const bool everywhere : {false, true}) {
      const auto x = ops::sample<T, 3>({1, 5000, 40});
      if (everywhere) x.fill(static_cast<T>(static_cast<float>(bad)));
      for (const std::int64_t row : {4100, 4101, 4999}) x(0, row, 7) = static_cast<T>(static_cast<float>(bad));
      x(0, 4100, 8) = static_cast<T>(-std::numeric_limits<float>::infinity());
      check_extremes(x * ones<T>(1, 1, 1));
      check_extremes(permute<2, 0, 1>(x) * ones<T>(1, 1, 1));
    }
  CHECK(argmax(tensor<float, 1>{-0.f, 0.f, -1.f} * 1).item() == 0);
  CHECK(argmin(tensor<float, 1>{0.f, -0.f, 1.f} * 1).item() == 0);
}

TEST_CASE_TEMPLATE("logsumexp of expressions over every set of axes, in blocks, chunks and columns", T, float,
                   f16 SINTER_ALSO(double, bf16)) {
  const double tolerance = std::max(ops::tolerance_of<T>(), 1e-13);
  const auto check = [&](const auto& e) {
    auto x = ops::values(e);
    for (double& v : x.at) v = std::exp(v - 500);
    for_each_axes([&](auto where, const std::vector<int>& axes) {
      for (const int k : axes)
        if (x.extents[static_cast<std::size_t>(k)] == 0) return;
      auto want = reduced(x, axes, 0, [](double a, double b) { return a + b; });
      for (double& v : want.at) v = std::log(v) + 500;
      ops::check_equal(ops::values(logsumexp(e, where)), want, tolerance);
      for (const int k : axes) want.extents.insert(want.extents.begin() + k, 1);
      ops::check_equal(ops::values(logsumexp(e, where, keepdims)), want, tolerance);
    });
  };
  for (const auto& shape : shapes) {
    const auto a = ops::sample<T, 3>(shape, 1), b = ops::sample<T, 3>(shape, 2);
    check(a * b + T(0.f));
    check(scattered(a, true) * b + T(500.f));
  }
  for (const auto& shape : {index_array<3>{40000, 1, 3}, {2, 2, 40000}, {1, 300, 300}, {4200, 1, 9}, {3, 3000, 2}})
    check(ops::sample<T, 3>(shape, 4) * full<T>(T(20.f), 1, 1, 1) + T(400.f));
}

TEST_CASE_TEMPLATE("logsumexp where the largest is infinite or NaN is the largest", T, float SINTER_ALSO(double, f16)) {
  const T inf = static_cast<T>(std::numeric_limits<float>::infinity());
  const T nan = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
  for (const T bad : {nan, inf, static_cast<T>(-inf)})
    for (const std::int64_t at : {0, 4999}) {
      const auto x = ops::sample<T, 2>({5000, 40});
      x(at, 7) = bad;
      for (std::int64_t i = 0; i < 5000; ++i) x(i, 8) = static_cast<T>(-inf);
      x(at, 9) = inf;
      x(2500, 9) = nan;
      const auto finite = logsumexp(slice<0>(x, 1, 4999) * T(1.f), axis<0>).to_vector();
      const auto check = [&](const std::vector<T>& got) {
        for (std::size_t j = 0; j < got.size(); ++j) {
          const auto v = static_cast<double>(got[j]);
          if (j == 8) CHECK(v == -std::numeric_limits<double>::infinity());
          else if (j == 9) CHECK(std::isnan(v));
          else if (j != 7 || bad < T(0.f)) CHECK(v == doctest::Approx(static_cast<double>(finite[j])).epsilon(0.01));
          else if (bad == bad) CHECK(v == std::numeric_limits<double>::infinity());
          else CHECK(std::isnan(v));
        }
      };
      check(logsumexp(x * T(1.f), axis<0>).to_vector());
      check(logsumexp(transpose(x) * T(1.f), axis<1>).to_vector());
      CHECK(std::isnan(static_cast<double>(logsumexp(x * T(1.f)).item())));
    }
}

TEST_CASE_TEMPLATE("2-norms of expressions over every set of axes, in blocks, chunks and columns", T, float,
                   f16 SINTER_ALSO(double)) {
  const double tolerance = std::max(ops::tolerance_of<T>(), 1e-13);
  const auto check = [&](const auto& a, const auto& b) {
    const auto x = ops::values(a * b);
    for_each_axes([&](auto where, const std::vector<int>& axes) {
      auto want = reduced(x, axes, 0, [](double p, double q) { return p + q * q; });
      for (double& v : want.at) v = std::sqrt(v);
      ops::check_equal(ops::values(norm(a * b, where)), want, tolerance);
      for (const int k : axes) want.extents.insert(want.extents.begin() + k, 1);
      ops::check_equal(ops::values(norm(a * b, where, keepdims)), want, tolerance);
    });
  };
  for (const auto& shape : shapes) check(scattered(ops::sample<T, 3>(shape, 1), true), ops::sample<T, 3>(shape, 2));
  for (const auto& shape : {index_array<3>{40000, 1, 3}, {2, 2, 40000}, {1, 300, 300}, {4200, 1, 9}})
    check(ops::sample<T, 3>(shape, 4), full<T>(T(0.5f), 1, 1, 1));
  // Where the sum of the squares is no f32.
  if constexpr (std::is_same_v<T, float>) {
    const auto want = doctest::Approx(1e17 * std::sqrt(1e5)).epsilon(1e-6);
    CHECK(norm(full<T>(1e17f, 100000) * 1).item() == want);
    CHECK(norm(full<T>(1e17f, 100000, 9) * 1, axis<0>)(8) == want);
  }
}

// Loops that ran above, over so many elements that bytes tell.
#if !defined(SINTER_TEST_LEAN)
TEST_CASE("variances, extremes, logsumexp and norms of an expression store it nowhere") {
  const std::int64_t n = 2048;
  const auto a = ops::sample<float, 2>({n, 1}), b = ops::sample<float, 2>({1, n});
  static_cast<void>(var(a + slice<1>(b, 0, 64)));  // starts the threads
  trim_memory(device::cpu());
  within(std::size_t{6} << 20, [&] {
    static_cast<void>(var(a + b, axis<1>));
    static_cast<void>(var(a + b, axis<0>));
    static_cast<void>(sinter::std(a + b));
    static_cast<void>(argmax(a + b, axis<1>));
    static_cast<void>(argmin(a + b, axis<0>));
    static_cast<void>(argmax(a + b));
    static_cast<void>(logsumexp(a + b, axis<1>));
    static_cast<void>(logsumexp(a + b, axis<0>));
    static_cast<void>(logsumexp(a + b));
    static_cast<void>(norm(a + b, axis<1>));
    static_cast<void>(norm(a + b, axis<0>));
    static_cast<void>(norm(a + b));
  });
}

TEST_CASE("softmax, norms and cross_entropy of an expression store but their result") {
  const std::int64_t n = 2048;
  const auto a = ops::sample<float, 2>({n, 1}), b = ops::sample<float, 2>({1, n});
  const auto labels = randint<std::int64_t>(make_key(1), 0, n, n);
  static_cast<void>(var(a + slice<1>(b, 0, 64)));  // starts the threads
  trim_memory(device::cpu());
  within(std::size_t{6} << 20, [&] { static_cast<void>(cross_entropy(a + b, labels)); });
  within(std::size_t{22} << 20, [&] {  // 16 MiB are the result's
    static_cast<void>(softmax(a + b));
    static_cast<void>(softmax<0>(a + b));
    static_cast<void>(log_softmax(a + b));
    static_cast<void>(log_softmax<0>(a + b));
    static_cast<void>(layer_norm(a + b));
    static_cast<void>(layer_norm(a + b, b * 2.f, b));
    static_cast<void>(rms_norm(a + b, b + 1.f));
  });
}
#endif

TEST_CASE("an f32 sum of 2^24 elements is accurate") {
  const std::int64_t n = 1 << 24;
  const auto tenths = full<float>(0.1f, n);
  CHECK(reduce<ir::op::add, 0>(tenths, {0}).item() == doctest::Approx(0.1f * static_cast<double>(n)).epsilon(1e-6));
  const tensor<float, 2> tall =
      detail::access::make<float, dims(2)>(detail::access::memory(tenths), tenths.data(), {n / 16, 16}, {16, 1});
  const auto columns = reduce<ir::op::add, 1>(tall, {0});
  for (auto c : columns.to_vector()) CHECK(c == doctest::Approx(0.1f * static_cast<double>(n / 16)).epsilon(1e-6));
}

template <class T>
static bool negative_zeros(const tensor<T, 1>& y) {
  bool all = true;
  for (const T v : y.to_vector()) all = all && v == T(0.f) && std::signbit(static_cast<double>(v));
  return all;
}

TEST_CASE_TEMPLATE("floor, ceil and trunc keep the sign of zero", T, float, double) {
  const auto x = full<T>(T(-0.0), 37);
  x(5) = T(-0.25);
  CHECK(negative_zeros<T>(ceil(x)));
  CHECK(negative_zeros<T>(trunc(x)));
  x(5) = T(-0.0);
  CHECK(negative_zeros<T>(floor(x)));
}

TEST_CASE_TEMPLATE("odd functions, expm1 and log1p keep the sign of zero", T, float, double, f16) {
  const auto x = full<T>(T(-0.0), 37);
  CHECK(negative_zeros<T>(expm1(x)));
  CHECK(negative_zeros<T>(log1p(x)));
  CHECK(negative_zeros<T>(elu(x)));
  CHECK(negative_zeros<T>(sin(x)));
  CHECK(negative_zeros<T>(tan(x)));
  CHECK(negative_zeros<T>(asin(x)));
  CHECK(negative_zeros<T>(atan(x)));
  CHECK(negative_zeros<T>(sinh(x)));
  CHECK(negative_zeros<T>(tanh(x)));
  CHECK(negative_zeros<T>(cbrt(x)));
  CHECK(negative_zeros<T>(sqrt(x)));
  CHECK(negative_zeros<T>(erf(x)));
}

TEST_CASE("maximum and minimum pass NaN on, wherever it stands") {
  for (std::int64_t at : {0, 1, 40, 98, 99}) {
    const auto x = arange<float>(100);
    x(at) = std::nanf("");
    CHECK(std::isnan(reduce<ir::op::maximum, 0>(x, {0}).item()));
    CHECK(std::isnan(reduce<ir::op::minimum, 0>(x * 2, {0}).item()));
  }
  CHECK(reduce<ir::op::maximum, 0>(full<float>(-INFINITY, 9), {0}).item() == -INFINITY);
  CHECK(reduce<ir::op::minimum, 0>(tensor<std::int8_t, 1>{127, 127}, {0}).item() == 127);
}

TEST_CASE("logical and bitwise reductions") {
  const auto x = arange<float>(77);
  CHECK(reduce<ir::op::bit_or, 0>(x > 75.5f, {0}).item());
  CHECK(!reduce<ir::op::bit_or, 0>(x > 76.5f, {0}).item());
  CHECK(reduce<ir::op::bit_and, 0>(x >= 0, {0}).item());
  CHECK(!reduce<ir::op::bit_and, 0>(x != 50, {0}).item());
  CHECK(reduce<ir::op::bit_and, 0>(zeros<bool>(0), {0}).item());
  CHECK(!reduce<ir::op::bit_or, 0>(zeros<bool>(0), {0}).item());
  CHECK(reduce<ir::op::bit_and, 0>(tensor<std::uint8_t, 1>{0xf3, 0x3f}, {0}).item() == 0x33);
  CHECK(reduce<ir::op::mul, 0>(tensor<std::int8_t, 1>{100, 100, 3}, {0}).item() == static_cast<std::int8_t>(30000));
}

TEST_CASE("nothing to reduce") {
  CHECK(reduce<ir::op::add, 1>(zeros<float>(0, 3), {0}).to_vector() == std::vector<float>{0, 0, 0});
  CHECK(reduce<ir::op::mul, 1>(zeros<float>(3, 0), {1}).to_vector() == std::vector<float>{1, 1, 1});
  CHECK(reduce<ir::op::maximum, 1>(zeros<float>(0, 3), {1}).numel() == 0);
  const std::string text = ops::error_of([] { (void)reduce<ir::op::maximum, 1>(zeros<float>(0, 3), {0}); });
  CHECK(ops::contains(text, "[maximum] nothing to reduce: the shape is (0, 3)"));
  CHECK(reduce<ir::op::add, 0>(tensor<float, 0>(4), {}).item() == 4);
}
