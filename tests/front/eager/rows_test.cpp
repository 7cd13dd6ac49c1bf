// tests/front/eager/rows_test.cpp: softmax, norms and cross_entropy as loops over whole rows or columns, against f64.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include <sinter/sinter.hpp>

#include "../ops_support.hpp"

using namespace sinter;

namespace {

using coord = ops::coord;

/// y = f(row) of x's rows along `axis`, in f64.
template <class F>
ops::array along(ops::array x, int axis, F&& f) {
  std::int64_t step = 1;
  for (std::size_t i = x.extents.size(); i-- > static_cast<std::size_t>(axis) + 1;) step *= x.extents[i];
  const std::int64_t n = x.extents[static_cast<std::size_t>(axis)];
  const auto count = static_cast<std::int64_t>(x.at.size());
  std::vector<double> row(static_cast<std::size_t>(n));
  for (std::int64_t first = 0; first < count; ++first) {
    if (first / step % n != 0) continue;
    for (std::int64_t k = 0; k < n; ++k)
      row[static_cast<std::size_t>(k)] = x.at[static_cast<std::size_t>(first + k * step)];
    f(row);
    for (std::int64_t k = 0; k < n; ++k)
      x.at[static_cast<std::size_t>(first + k * step)] = row[static_cast<std::size_t>(k)];
  }
  return x;
}

void softmax_of(std::vector<double>& row) {
  double max = -std::numeric_limits<double>::infinity(), sum = 0;
  for (const double x : row) max = x != x || x > max ? x : max;
  for (const double x : row) sum += std::exp(x - max);
  for (double& x : row) x = std::exp(x - max) / sum;
}
void log_softmax_of(std::vector<double>& row) {
  double max = -std::numeric_limits<double>::infinity(), sum = 0;
  for (const double x : row) max = x != x || x > max ? x : max;
  for (const double x : row) sum += std::exp(x - max);
  for (double& x : row) x = x - max - std::log(sum);
}
void standardise(std::vector<double>& row) {
  double mean = 0, square = 0;
  for (const double x : row) mean += x / static_cast<double>(row.size());
  for (const double x : row) square += (x - mean) * (x - mean) / static_cast<double>(row.size());
  for (double& x : row) x = (x - mean) / std::sqrt(square + 1e-5);
}
void by_root(std::vector<double>& row) {
  double square = 0;
  for (const double x : row) square += x * x / static_cast<double>(row.size());
  for (double& x : row) x /= std::sqrt(square + 1e-5);
}

template <class T>
double tolerance() {
  return std::max(ops::tolerance_of<T>(), 1e-13);
}

/// The values of an expression of halves are computed, and go on, in f32.
template <class E>
ops::array unrounded(const E& e) {
  return ops::values(cast<detail::compute_type<typename E::value_type>>(e));
}

/// Every axis, of an expression and of its values read backwards.
template <class E>
void check_softmax(const E& e) {
  using T = typename E::value_type;
  const ops::array x = unrounded(e);
  const auto check = [&](auto where) {
    constexpr int a = decltype(where)::value;
    if (x.extents[a] == 0) return;
    ops::check_equal(ops::values(softmax<a>(e)), along(x, a, softmax_of), tolerance<T>());
    ops::check_equal(ops::values(log_softmax<a>(e)), along(x, a, log_softmax_of), tolerance<T>());
    const auto back = flip<1>(permute<2, 1, 0>(e.eval()));
    ops::check_equal(ops::values(softmax<2 - a>(back)), along(ops::values(back), 2 - a, softmax_of), tolerance<T>());
  };
  check(std::integral_constant<int, 0>());
  check(std::integral_constant<int, 1>());
  check(std::integral_constant<int, 2>());
}

const index_array<3> shapes[] = {{3, 5, 7},  {1, 1, 1}, {2, 1, 9}, {1, 33, 1},
                                 {4, 17, 3}, {0, 3, 2}, {3, 2, 0}, {24, 20, 33}};

}  // namespace

TEST_CASE_TEMPLATE("softmax and log_softmax of expressions along every axis", T, float, double, f16) {
  for (const auto& shape : shapes) {
    const auto a = ops::sample<T, 3>(shape, 1), b = ops::sample<T, 3>(shape, 2);
    check_softmax(a * b + T(0.f));
    check_softmax(a * b * T(30.f) + T(200.f));
  }
  for (const auto& shape : {index_array<3>{1, 2, 5000}, {2, 300, 70}, {70, 1, 300}, {1, 9, 517}})
    check_softmax(ops::sample<T, 3>(shape, 4) * full<T>(T(20.f), 1, 1, 1));
}

TEST_CASE_TEMPLATE("rows and columns with infinities or NaN: those whose maximum is no number are NaN", T, float,
                   double) {
  const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  for (const std::int64_t n : {5, 40}) {
    const auto x = ops::sample<T, 2>({6, n}, 3);
    x(0, 2) = inf;
    x(1, 3) = nan;
    x(2, 4) = -inf;
    for (std::int64_t j = 0; j < n; ++j) x(3, j) = -inf;
    x(4, 0) = -T(1000);
    const auto check = [&](const auto& softmaxed, const auto& logs) {
      for (std::int64_t j = 0; j < n; ++j) {
        for (const std::int64_t i : {0, 1, 3}) {
          CHECK(std::isnan(softmaxed(i, j)));
          CHECK(std::isnan(logs(i, j)));
        }
        CHECK(softmaxed(2, j) >= 0);
        CHECK(std::isfinite(softmaxed(5, j)));
      }
      CHECK(softmaxed(2, 4) == 0);
      CHECK(logs(2, 4) == -inf);
      CHECK(softmaxed(4, 0) == 0);
      CHECK(logs(4, 0) < -990);
    };
    check(softmax(x * T(1)), log_softmax(x * T(1)));
    check(transpose(softmax<0>(transpose(x) * T(1))), transpose(log_softmax<0>(transpose(x) * T(1))));
  }
}

TEST_CASE_TEMPLATE("layer_norm and rms_norm of expressions, scaled by whatever broadcasts", T, float, double, f16,
                   bf16) {
  for (const std::int64_t n : {1, 3, 16, 33, 700, 5000}) {
    CAPTURE(n);
    const auto x = ops::sample<T, 2>({4, n}, 1) * T(3.f) + T(5.f);
    const ops::array rows = unrounded(x), normal = along(rows, 1, standardise), scaled = along(rows, 1, by_root);
    ops::check_equal(ops::values(layer_norm(x)), normal, tolerance<T>());
    const auto check = [&](const auto& g, const auto& b) {
      const ops::array by = ops::values(broadcast_to(g, 4, n)), more = ops::values(broadcast_to(b, 4, n));
      ops::array want = normal, root = scaled;
      for (std::size_t i = 0; i < want.at.size(); ++i) {
        want.at[i] = want.at[i] * by.at[i] + more.at[i];
        root.at[i] *= by.at[i];
      }
      ops::check_equal(ops::values(layer_norm(x, g, b)), want, 4 * tolerance<T>());
      ops::check_equal(ops::values(rms_norm(x, g)), root, 4 * tolerance<T>());
    };
    const auto row = ops::sample<T, 1>({n}, 2), one = ops::sample<T, 1>({1}, 3);
    const auto all = ops::sample<T, 2>({4, n}, 4), column = ops::sample<T, 2>({4, 1}, 5);
    check(row, row * T(2.f));
    check(flip<0>(row), one);
    check(all + T(1.f), column);
    check(column, all);
    check(one, row);
    // More rows than x has: what is scaled has them, too.
    const auto more = layer_norm(x, ops::sample<T, 3>({2, 1, n}, 6), row);
    CHECK(more.shape() == index_array<3>{2, 4, n});
    const auto first = layer_norm(x, slice<0>(ops::sample<T, 3>({2, 1, n}, 6), 1, 2), row);
    CHECK(slice<0>(more, 1, 2).to_vector() == first.to_vector());
  }
  CHECK(layer_norm(zeros<T>(3, 0) + T(1.f)).numel() == 0);
  CHECK(rms_norm(zeros<T>(0, 3) + T(1.f), ones<T>(3)).numel() == 0);
}

TEST_CASE_TEMPLATE("cross_entropy of large logits that are alike", T, float, double) {
  const tensor<int, 1> label{1};
  for (const double offset : {0.0, 1e9, 1e15, -1e15, 1e20}) {
    CAPTURE(offset);
    const tensor<T, 2> x{{T(offset), T(offset), T(offset)}};
    CHECK(static_cast<double>(cross_entropy(x, label).item()) == doctest::Approx(std::log(3.0)).epsilon(1e-7));
  }
}

TEST_CASE_TEMPLATE("cross_entropy of expressions", T, float, double, f16) {
  for (const auto& shape : shapes) {
    if (shape[2] == 0) continue;
    const auto z = ops::sample<T, 3>(shape, 1) * T(8.f) + T(100.f);
    const auto labels = randint<std::int64_t>(make_key(1), 0, shape[2], shape[0], shape[1]);
    const ops::array logs = along(unrounded(z), 2, log_softmax_of);
    const auto chosen = labels.to_vector();
    double want = 0;
    for (std::size_t r = 0; r < chosen.size(); ++r)
      want -= logs.at[r * static_cast<std::size_t>(shape[2]) + static_cast<std::size_t>(chosen[r])];
    want /= static_cast<double>(chosen.size());
    if (chosen.empty()) {
      CHECK(std::isnan(static_cast<double>(cross_entropy(z, labels).item())));
      continue;
    }
    CHECK(static_cast<double>(cross_entropy(z, labels).item()) == doctest::Approx(want).epsilon(4 * tolerance<T>()));
    CHECK(static_cast<double>(cross_entropy(z, cast<std::int32_t>(labels)).item()) ==
          doctest::Approx(want).epsilon(4 * tolerance<T>()));
  }
  const auto z = ops::sample<T, 2>({3, 4}, 1) * T(1.f);
  CHECK(ops::contains(ops::error_of([&] {
                        (void)cross_entropy(z, tensor<std::int64_t, 1>{0, 4, 1});
                      }),
                      "[cross_entropy]"));
  CHECK(ops::contains(ops::error_of([&] {
                        (void)cross_entropy(z, tensor<std::int64_t, 1>{0, 1});
                      }),
                      "[cross_entropy]"));
  CHECK(softmax(zeros<T>(3, 0) + T(1.f)).shape() == index_array<2>{3, 0});
}
