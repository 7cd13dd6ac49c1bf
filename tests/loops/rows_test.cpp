// tests/loops/rows_test.cpp: row functions as the engine has them: of tensors without static types, against f64.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <sinter/sinter.hpp>

#include "../allocations.hpp"

namespace {

using namespace sinter;
using engine::row_map;
using engine::row_total;

constexpr double quiet = std::numeric_limits<double>::quiet_NaN();

/// Numbers in [-4, 4) that differ.
template <class T>
std::vector<T> sample(std::int64_t n, unsigned seed, double about = 0) {
  std::vector<T> v(static_cast<std::size_t>(n));
  for (T& x : v) {
    seed = seed * 1664525U + 1013904223U;
    x = static_cast<T>(about + (seed >> 8) / 16777216.0 * 8 - 4);
  }
  return v;
}

/// A matrix of the host, of rows that are neighbours, lie apart, or lie across.
template <class T>
struct matrix {
  std::int64_t extents[2], strides[2];
  std::vector<T> at;
  storage owner;
  engine::operand operand;

  matrix(std::int64_t rows, std::int64_t n, int layout, double about = 0)
      : extents{rows, n}, owner(engine::allocate(1)) {
    strides[0] = layout == 0 ? n : layout == 1 ? 2 * n + 1 : 1;
    strides[1] = layout == 0 ? 1 : layout == 1 ? 2 : rows;
    at = sample<T>(rows * (2 * n + 1), 7U + static_cast<unsigned>(n), about);
    operand.data = at.data();
    operand.owner = &owner;
    operand.type = dtype_of<T>;
    operand.rank = 2;
    operand.extents = extents;
    operand.strides = strides;
  }
  matrix(const matrix&) = delete;

  engine::row_source source() const { return {{&operand, 1}, nullptr, nullptr, dtype_of<T>, 2, extents}; }
  T& operator()(std::int64_t r, std::int64_t i) {
    return at[static_cast<std::size_t>(r * strides[0] + i * strides[1])];
  }
};

std::vector<double> expected(row_map f, const std::vector<double>& x, double eps) {
  const auto n = static_cast<long double>(x.size());
  long double max = -std::numeric_limits<double>::infinity(), sum = 0, mean = 0, square = 0;
  for (const long double v : x) max = v != v || v > max ? v : max;
  for (const long double v : x) sum += std::exp(v - max);
  if (f == row_map::layer_norm) {  // of differences, which are exact
    std::vector<double> off = x;
    for (double& v : off) v -= x[0];
    for (const long double v : off) mean += v / n;
    for (const long double v : off) square += (v - mean) * (v - mean) / n;
    for (double& v : off) v = static_cast<double>((v - mean) / std::sqrt(square + eps));
    return off;
  }
  for (const long double v : x) square += v * v / n;
  std::vector<double> y;
  for (const long double v : x)
    y.push_back(static_cast<double>(f == row_map::softmax       ? std::exp(v - max) / sum
                                    : f == row_map::log_softmax ? v - max - std::log(sum)
                                                                : v / std::sqrt(square + eps)));
  return y;
}

/// f of x into poisoned memory.
template <class T>
std::vector<T> mapped(row_map f, const engine::row_source& x, double eps = 1e-5,
                      std::span<const engine::row_source> by = {}, int axis = 1) {
  std::vector<T> y(static_cast<std::size_t>(x.extents[0] * x.extents[1]) + 1, T(-77));
  engine::map_rows(f, x, axis, eps, by, y.data());
  CHECK(y.back() == T(-77));
  y.pop_back();
  return y;
}

template <class T>
void check_rows(row_map f, matrix<T>& x, double eps, int ulps) {
  const auto y = mapped<T>(f, x.source(), eps);
  const std::int64_t rows = x.extents[0], n = x.extents[1];
  for (std::int64_t r = 0; r < rows; ++r) {
    std::vector<double> row;
    for (std::int64_t i = 0; i < n; ++i) row.push_back(x(r, i));
    const auto wanted = expected(f, row, eps);
    double scale = 0;
    for (const double v : wanted) scale = std::max(scale, std::abs(v));
    const double within = ulps * static_cast<double>(std::numeric_limits<T>::epsilon()) * (scale + 1e-30);
    for (std::int64_t i = 0; i < n; ++i) {
      const double got = y[static_cast<std::size_t>(r * n + i)], want = wanted[static_cast<std::size_t>(i)];
      INFO("row ", r, " of ", rows, ", element ", i, " of ", n, ": ", got, " for ", want);
      CHECK((want != want ? got != got : std::abs(got - want) <= within));
    }
  }
}

constexpr row_map maps[] = {row_map::softmax, row_map::log_softmax, row_map::layer_norm, row_map::rms_norm};

}  // namespace

TEST_CASE_TEMPLATE("rows of every length, however they lie", T, float, double) {
  for (const std::int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 33, 2500})
    for (const std::int64_t rows : {1, 3, 64, 65, 130})
      for (const int layout : {0, 1, 2}) {
        if (n > 100 && rows > 3) continue;
        matrix<T> x(rows, n, layout);
        for (const row_map f : maps) check_rows(f, x, 1e-5, 16);
      }
}

TEST_CASE_TEMPLATE("norms of short rows keep their digits where the mean is far from 0", T, float, double) {
  const double about = sizeof(T) == 4 ? 1e4 : 1e12;
  for (const std::int64_t n : {2, 5, 7, 16, 17}) {
    matrix<T> x(70, n, 0, about);
    check_rows(row_map::layer_norm, x, 1e-5, 16);
  }
}

TEST_CASE_TEMPLATE("an eps that the dtype does not hold is 0", T, float, double) {
  matrix<T> x(5, 4, 0);
  for (std::int64_t i = 0; i < 4; ++i) x(2, i) = T(3);
  const auto y = mapped<T>(row_map::layer_norm, x.source(), 1e-60);
  for (std::size_t k = 0; k < y.size(); ++k) CHECK((y[k] == y[k]) == (sizeof(T) == 8 || k / 4 != 2));
}

TEST_CASE_TEMPLATE("a short row with NaN or infinities spoils no other", T, float, double) {
  const T inf = std::numeric_limits<T>::infinity();
  for (const std::int64_t n : {2, 3, 7, 16, 20}) {
    matrix<T> x(67, n, 0);
    x(1, 0) = static_cast<T>(quiet);
    x(3, n - 1) = inf;
    x(5, 1) = -inf;
    for (std::int64_t i = 0; i < n; ++i) x(66, i) = -inf;
    const auto y = mapped<T>(row_map::softmax, x.source()), z = mapped<T>(row_map::layer_norm, x.source());
    for (std::int64_t r = 0; r < 67; ++r)
      for (std::int64_t i = 0; i < n; ++i) {
        INFO("row ", r, " of ", n);
        const auto at = static_cast<std::size_t>(r * n + i);
        CHECK((y[at] != y[at]) == (r == 1 || r == 3 || r == 66));
        CHECK((z[at] != z[at]) == (r == 1 || r == 3 || r == 5 || r == 66));
        if (r == 5 && i == 1) CHECK(y[at] == T(0));
      }
  }
}

TEST_CASE("squares of f64 that are infinite leave 0 of a short row, as of a long one") {
  const double large = std::numeric_limits<double>::max() / 64;
  for (const std::int64_t n : {4, 20}) {
    matrix<double> x(3, n, 0);
    for (std::int64_t i = 0; i < n; ++i) x(1, i) = i % 2 ? large : -large;
    for (const row_map f : {row_map::layer_norm, row_map::rms_norm}) {
      const auto y = mapped<double>(f, x.source());
      for (std::int64_t i = 0; i < n; ++i) CHECK(y[static_cast<std::size_t>(n + i)] == 0);
    }
  }
}

TEST_CASE("squares of f32 that it does not hold are f64's, in short rows and long ones") {
  for (const double size : {1e-25, 1e19, 1e30, 1e36})
    for (const std::int64_t n : {2, 4, 16, 20, 3000})
      for (const int layout : {0, 1, 2}) {
        if (n > 100 && layout) continue;
        matrix<float> x(67, n, layout);
        for (std::int64_t i = 0; i < n; ++i) x(1, i) *= static_cast<float>(size), x(66, i) *= static_cast<float>(size);
        for (const row_map f : {row_map::layer_norm, row_map::rms_norm}) check_rows(f, x, size < 1 ? 0 : 1e-5, 64);
        for (const int axis : {0, 1}) {
          const std::int64_t results = axis ? 67 : n, length = axis ? n : 67;
          std::vector<float> y(static_cast<std::size_t>(results));
          REQUIRE(engine::total_rows(row_total::norm, x.source(), {&axis, 1}, 0, y.data()));
          for (std::int64_t k = 0; k < results; ++k) {
            double square = 0;
            for (std::int64_t i = 0; i < length; ++i) {
              const double v = axis ? x(k, i) : x(i, k);
              square += v * v;
            }
            CHECK(std::abs(y[static_cast<std::size_t>(k)] - std::sqrt(square)) <= 2e-6 * std::sqrt(square));
          }
        }
      }
}

TEST_CASE_TEMPLATE("rows scaled by one row, and by others for each", T, float, double) {
  constexpr double within = 256 * static_cast<double>(std::numeric_limits<T>::epsilon());
  for (const std::int64_t n : {1, 2, 7, 16, 40, 2048, 5000})
    for (const std::int64_t rows : {1, 3, 70})
      for (const int layout : {0, 1, 2})
        for (const bool a_each : {false, true})
          for (const bool b_each : {false, true}) {
            if (n > 100 && rows > 3) continue;
            matrix<T> x(rows, n, layout), a(a_each ? rows : 1, n, layout, 2), b(b_each ? rows : 1, n, 2 - layout, -1);
            if (n == 7) b.strides[1] = 0;  // one number a row
            const engine::row_source by[] = {a.source(), b.source()};
            const auto plain = mapped<T>(row_map::layer_norm, x.source());
            const auto once = mapped<T>(row_map::layer_norm, x.source(), 1e-5, {by, 1});
            const auto both = mapped<T>(row_map::layer_norm, x.source(), 1e-5, by);
            std::int64_t wrong = 0;
            for (std::int64_t r = 0; r < rows; ++r)
              for (std::int64_t i = 0; i < n; ++i) {
                const auto at = static_cast<std::size_t>(r * n + i);
                const double from = static_cast<double>(plain[at]), scale = a(a_each ? r : 0, i),
                             plus = b(b_each ? r : 0, i);
                wrong += !(std::abs(once[at] - from * scale) <= within);
                wrong += !(std::abs(both[at] - (from * scale + plus)) <= within);
              }
            INFO(rows, " rows of ", n, ", layout ", layout, a_each, b_each);
            CHECK(wrong == 0);
          }
}

TEST_CASE_TEMPLATE("small calls need no memory, nor does what scales each row", T, float, double) {
  for (const std::int64_t n : {1, 4, 10, 16, 40, 5000})
    for (const std::int64_t rows : {1, 3, 70})
      for (const int layout : {0, 1, 2}) {
        if (n > 100 && rows > 3) continue;
        matrix<T> x(rows, n, layout), a(rows, n, layout, 2), b(rows, n, 2 - layout, -1);
        const engine::row_source by[] = {a.source(), b.source()};
        std::vector<T> y(static_cast<std::size_t>(rows * n));
        const int last = 1;
        INFO(rows, " rows of ", n, ", layout ", layout);
        for (const row_map f : maps) {
          CHECK(allocations_of([&] { engine::map_rows(f, x.source(), 1, 1e-5, {}, y.data()); }) == 0);
          if (f == row_map::layer_norm || f == row_map::rms_norm)
            CHECK(allocations_of([&] { engine::map_rows(f, x.source(), 1, 1e-5, by, y.data()); }) == 0);
        }
        CHECK(allocations_of([&] { engine::map_rows(maps[0], x.source(), 0, 1e-5, {}, y.data()); }) == 0);
        for (const row_total f : {row_total::variance, row_total::norm, row_total::logsumexp})
          CHECK(allocations_of([&] { engine::total_rows(f, x.source(), {&last, 1}, 0, y.data()); }) == 0);
      }
}

TEST_CASE_TEMPLATE("totals of rows and columns", T, float, double) {
  for (const std::int64_t n : {1, 2, 7, 64, 3000}) {
    matrix<T> x(9, n, 1, 50);
    for (const int axis : {0, 1}) {
      const std::int64_t results = axis == 1 ? 9 : n, length = axis == 1 ? n : 9;
      std::vector<T> y(static_cast<std::size_t>(results), T(-77));
      const auto close = [&](row_total f, int ddof, auto&& want) {
        REQUIRE(engine::total_rows(f, x.source(), {&axis, 1}, ddof, y.data()));
        for (std::int64_t k = 0; k < results; ++k) {
          std::vector<double> row;
          for (std::int64_t i = 0; i < length; ++i) row.push_back(axis == 1 ? x(k, i) : x(i, k));
          const double w = want(row), got = y[static_cast<std::size_t>(k)];
          CHECK(std::abs(got - w) <= 16 * static_cast<double>(std::numeric_limits<T>::epsilon()) * std::abs(w));
        }
      };
      const auto variance = [](const std::vector<double>& v) {
        double mean = 0, square = 0;
        for (const double e : v) mean += e / static_cast<double>(v.size());
        for (const double e : v) square += (e - mean) * (e - mean) / static_cast<double>(v.size());
        return square;
      };
      close(row_total::variance, 0, variance);
      close(row_total::deviation, 0, [&](const std::vector<double>& v) { return std::sqrt(variance(v)); });
      close(row_total::norm, 0, [](const std::vector<double>& v) {
        double square = 0;
        for (const double e : v) square += e * e;
        return std::sqrt(square);
      });
      close(row_total::logsumexp, 0, [](const std::vector<double>& v) {
        double sum = 0;
        for (const double e : v) sum += std::exp(e - 50);
        return 50 + std::log(sum);
      });
    }
  }
  matrix<T> none(4, 0, 0);
  const int axis = 1;
  T untouched[4] = {T(5), T(5), T(5), T(5)};
  CHECK(!engine::total_rows(row_total::norm, none.source(), {&axis, 1}, 0, untouched));
  CHECK(untouched[0] == T(5));
}

TEST_CASE_TEMPLATE("losses of labelled rows", T, float, double) {
  for (const int layout : {0, 1, 2})
    for (const std::int64_t n : {2, 7, 1000}) {
      matrix<T> x(5, n, layout, 30);
      const std::int64_t labels[] = {0, n - 1, 1, 0, n / 2};
      double loss[5] = {quiet, quiet, quiet, quiet, quiet};
      engine::row_losses(x.source(), labels, loss);
      for (std::int64_t r = 0; r < 5; ++r) {
        double sum = 0;
        for (std::int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(x(r, i)) - 34);
        const double want = 34 + std::log(sum) - static_cast<double>(x(r, labels[r]));
        CHECK(std::abs(loss[r] - want) <= 1e2 * static_cast<double>(std::numeric_limits<T>::epsilon()) * (1 + want));
      }
    }
}
