// Reductions against plain f64 loops: axes, views, expressions, dtypes, special values, nothing.
#include <algorithm>
#include <limits>

#include <sinter/front/functions/movement.hpp>
#include <sinter/front/functions/reductions.hpp>

#include "../ops_support.hpp"

using namespace sinter;
using ops::array;
using ops::check_both;
using ops::coord;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), not_a_number = std::numeric_limits<double>::quiet_NaN();

/// f(the elements along `axes`, in row-major order) for every coordinate of the other axes.
template <class F>
array fold(const array& a, const std::vector<std::size_t>& axes, bool keep, F&& f) {
  const auto reduced = [&](std::size_t i) { return std::find(axes.begin(), axes.end(), i) != axes.end(); };
  coord kept, inner;
  for (std::size_t i = 0; i < a.extents.size(); ++i) {
    if (!reduced(i)) kept.push_back(a.extents[i]);
    inner.push_back(reduced(i) ? a.extents[i] : 1);
  }
  auto out = ops::make(kept, [&](const coord& c) {
    std::vector<double> run;
    ops::make(inner, [&](coord at) {
      for (std::size_t i = 0, k = 0; i < at.size(); ++i)
        if (!reduced(i)) at[i] = c[k++];
      run.push_back(ops::get(a, at));
      return 0.0;
    });
    return static_cast<double>(f(run));
  });
  if (keep) {
    out.extents = a.extents;
    for (auto i : axes) out.extents[i] = 1;
  }
  return out;
}

using run = std::vector<double>;
double total(const run& r) {
  double s = 0;
  for (double x : r) s += x;
  return s;
}
double product(const run& r) {
  double s = 1;
  for (double x : r) s *= x;
  return s;
}
double largest(const run& r) {
  double m = -inf;
  for (double x : r) m = std::isnan(x) || std::isnan(m) ? not_a_number : std::max(m, x);
  return m;
}
double smallest(const run& r) {
  double m = inf;
  for (double x : r) m = std::isnan(x) || std::isnan(m) ? not_a_number : std::min(m, x);
  return m;
}
double average(const run& r) { return total(r) / static_cast<double>(r.size()); }
double variance(const run& r, int ddof = 0) {
  const double m = average(r);
  double s = 0;
  for (double x : r) s += (x - m) * (x - m);
  return s / std::max<double>(static_cast<double>(r.size()) - ddof, 0);
}
double log_sum_exp(const run& r) {
  const double top = largest(r), m = std::isfinite(top) ? top : 0;
  double s = 0;
  for (double x : r) s += std::exp(x - m);
  return std::log(s) + m;
}
double first_largest(const run& r) {
  std::size_t best = 0;
  for (std::size_t i = 0; i < r.size(); ++i) {
    if (std::isnan(r[i])) return static_cast<double>(i);
    if (r[i] > r[best]) best = i;
  }
  return static_cast<double>(best);
}

const auto x345 = ops::sample<double, 3>({3, 4, 5}, 7);

}  // namespace

TEST_CASE("axes, keepdims and their order") {
  const auto a = ops::values(x345);
  check_both(
      fold(a, {0, 1, 2}, false, total), 1e-14, [](const auto& x) { return sum(x); }, x345);
  check_both(
      fold(a, {0, 1, 2}, true, total), 1e-14, [](const auto& x) { return sum(x, keepdims); }, x345);
  check_both(
      fold(a, {0}, false, total), 1e-14, [](const auto& x) { return sum(x, axis<0>); }, x345);
  check_both(
      fold(a, {1}, true, total), 1e-14, [](const auto& x) { return sum(x, axis<-2>, keepdims); }, x345);
  check_both(
      fold(a, {0, 2}, false, total), 1e-14, [](const auto& x) { return sum(x, axis<-1, 0>); }, x345);
  check_both(
      fold(a, {1, 2}, true, total), 1e-14, [](const auto& x) { return sum(x, axis<1, 2>, keepdims); }, x345);
  static_assert(decltype(sum(tensor<float, dims{2, dyn, 4}>(), axis<-1>, keepdims))::static_shape == dims{2, dyn, 1});
  static_assert(decltype(mean(tensor<float, dims{2, dyn, 4}>(), axis<0>))::static_shape == dims{dyn, 4});
  const tensor<double, 0> scalar = sum(x345);
  CHECK(sum(scalar).item() == scalar.item());
}

TEST_CASE("every reduction along an axis, of a view of an expression") {
  const auto e = [](const auto& x) { return flip<2>(permute<1, 0, 2>(x)) * 0.5 + 1.0; };
  const auto a = ops::values(e(x345));
  check_both(
      fold(a, {1}, false, total), 1e-14, [&](const auto& x) { return sum(e(x), axis<1>); }, x345);
  check_both(
      fold(a, {1}, false, product), 1e-14, [&](const auto& x) { return prod(e(x), axis<1>); }, x345);
  check_both(
      fold(a, {1}, false, largest), 0, [&](const auto& x) { return max(e(x), axis<1>); }, x345);
  check_both(
      fold(a, {2}, false, smallest), 0, [&](const auto& x) { return min(e(x), axis<2>); }, x345);
  check_both(
      fold(a, {2}, false, average), 1e-14, [&](const auto& x) { return mean(e(x), axis<2>); }, x345);
  check_both(
      fold(a, {2}, true, [](const run& r) { return variance(r, 1); }), 1e-14,
      [&](const auto& x) { return var(e(x), axis<2>, keepdims, 1); }, x345);
  check_both(
      fold(a, {0, 1}, false, [](const run& r) { return std::sqrt(variance(r)); }), 1e-14,
      [&](const auto& x) { return sinter::std(e(x), axis<0, 1>); }, x345);
  check_both(
      fold(a, {0}, false, log_sum_exp), 1e-14, [&](const auto& x) { return logsumexp(e(x), axis<0>); }, x345);
  check_both(
      fold(a, {0, 2}, false, log_sum_exp), 1e-14, [&](const auto& x) { return logsumexp(e(x), axis<0, 2>); }, x345);
  const auto norm2 = [](const run& r) {
    double s = 0;
    for (double x : r) s += x * x;
    return std::sqrt(s);
  };
  const auto norm1 = [](const run& r) {
    double s = 0;
    for (double x : r) s += std::abs(x);
    return s;
  };
  const auto norm_inf = [](const run& r) {
    double s = 0;
    for (double x : r) s = std::max(s, std::abs(x));
    return s;
  };
  check_both(
      fold(a, {1}, false, norm2), 1e-14, [&](const auto& x) { return norm(e(x), axis<1>); }, x345);
  check_both(
      fold(a, {1}, true, norm1), 1e-14, [&](const auto& x) { return norm<1>(e(x), axis<1>, keepdims); }, x345);
  check_both(
      fold(a, {0, 1, 2}, false, norm_inf), 1e-14, [&](const auto& x) { return norm<norm_max>(e(x)); }, x345);
  check_both(
      fold(a, {2}, false, first_largest), 0, [&](const auto& x) { return argmax(e(x), axis<2>); }, x345);
  check_both(
      fold(a, {0, 1, 2}, false, first_largest), 0, [&](const auto& x) { return argmax(e(x)); }, x345);
  check_both(
      fold(a, {1}, true,
           [](run r) {
             for (auto& x : r) x = -x;
             return first_largest(r);
           }),
      0, [&](const auto& x) { return argmin(e(x), axis<1>, keepdims); }, x345);
  check_both(
      fold(a, {0, 1, 2}, true, first_largest), 0, [&](const auto& x) { return argmax(e(x), keepdims); }, x345);
  check_both(
      fold(a, {1}, false, [](const run& r) { return largest(r) > 1.5; }), 0,
      [&](const auto& x) { return any(e(x) > 1.5, axis<1>); }, x345);
  check_both(
      fold(a, {1}, true, [](const run& r) { return smallest(r) > 0.5; }), 0,
      [&](const auto& x) { return all(e(x) > 0.5, axis<1>, keepdims); }, x345);
}

namespace {
template <class T>
void check_dtype() {
  const auto x = ops::sample<T, 2>({5, 7}, 2);
  const auto a = ops::values(x);
  const double tolerance = ops::tolerance_of<T>();
  const auto wrapped = [](double v) {
    if constexpr (std::is_integral_v<T>) return static_cast<double>(static_cast<T>(static_cast<std::int64_t>(v)));
    else return v;
  };
  check_both(
      fold(a, {1}, false, [&](const run& r) { return wrapped(total(r)); }), tolerance,
      [](const auto& t) { return sum(t, axis<1>); }, x);
  check_both(
      fold(a, {1}, false, [&](const run& r) { return wrapped(product(r)); }), 4 * tolerance,
      [](const auto& t) { return prod(t, axis<1>); }, x);
  check_both(
      fold(a, {0}, false, largest), tolerance, [](const auto& t) { return max(t, axis<0>); }, x);
  check_both(
      fold(a, {0, 1}, false, smallest), tolerance, [](const auto& t) { return min(t); }, x);
  check_both(
      fold(a, {1}, false, first_largest), 0, [](const auto& t) { return argmax(t, axis<1>); }, x);
  check_both(
      fold(a, {1}, false, [](const run& r) { return product(r) != 0; }), 0,
      [](const auto& t) { return all(t, axis<1>); }, x);
  if constexpr (is_float(dtype_of<T>)) {
    check_both(
        fold(a, {1}, false, average), tolerance, [](const auto& t) { return mean(t, axis<1>); }, x);
    check_both(
        fold(a, {1}, false, log_sum_exp), tolerance, [](const auto& t) { return logsumexp(t, axis<1>); }, x);
    check_both(
        fold(a, {0}, false, [](const run& r) { return variance(r); }), tolerance,
        [](const auto& t) { return var(t, axis<0>); }, x);
  }
}
}  // namespace

TEST_CASE("every dtype") {
  check_dtype<float>();
  check_dtype<f16>();
  check_dtype<bf16>();
  check_dtype<std::int8_t>();
  check_dtype<std::int32_t>();
  check_dtype<std::uint16_t>();
  check_dtype<std::uint64_t>();
}

TEST_CASE("integer sums wrap in their dtype, f16 sums in f32") {
  const auto x = ops::sample<std::int8_t, 1>({3});
  x.fill(100);
  CHECK(sum(x).item() == static_cast<std::int8_t>(300 - 256));
  CHECK(sum(cast<std::int32_t>(x)).item() == 300);
  const auto h = ops::sample<f16, 1>({4096});
  h.fill(f16(1.f));
  CHECK(static_cast<float>(sum(h).item()) == 4096.f);
  const auto large = ops::sample<f16, 1>({70});
  large.fill(f16(60000.f));
  CHECK(static_cast<float>(mean(large).item()) == 60000.f);
}

TEST_CASE("nothing: sums are 0, products 1, extremes an error") {
  const auto x = ops::sample<float, 2>({3, 0});
  const auto each = [](double v) { return array{{3}, {v, v, v}}; };
  check_both(
      each(0), 0, [](const auto& t) { return sum(t, axis<1>); }, x);
  check_both(
      each(1), 0, [](const auto& t) { return prod(t, axis<1>); }, x);
  check_both(
      each(not_a_number), 0, [](const auto& t) { return mean(t, axis<1>); }, x);
  check_both(
      each(not_a_number), 0, [](const auto& t) { return var(t, axis<1>); }, x);
  check_both(
      each(0), 0, [](const auto& t) { return any(t > 0.f, axis<1>); }, x);
  check_both(
      each(1), 0, [](const auto& t) { return all(t > 0.f, axis<1>); }, x);
  check_both(
      array{{0}, {}}, 0, [](const auto& t) { return max(t, axis<0>); }, x);
  CHECK(ops::contains(ops::error_of([&] { (void)max(x, axis<1>); }), "[max] of nothing: axis 1 of (3, 0) is empty"));
  CHECK(ops::contains(ops::error_of([&] { (void)min(x); }), "[min] of nothing"));
  CHECK(ops::contains(ops::error_of([&] { (void)argmax(x, axis<1>); }), "[argmax] axis 1 of (3, 0) is empty"));
  CHECK(ops::contains(ops::error_of([&] { (void)argmin(x); }), "[argmin]"));
  CHECK(ops::contains(ops::error_of([&] { (void)ops::traced([](const auto& t) { return max(t, axis<1>); }, x); }),
                      "[max] of nothing"));
  CHECK(ops::contains(ops::error_of([&] { (void)max(x, axis<1>); }), "reductions_test.cpp:"));
  CHECK(ops::contains(ops::error_of([&] { (void)logsumexp(x); }), "[logsumexp] of nothing"));
  CHECK(ops::contains(ops::error_of([&] { (void)norm<norm_max>(x); }), "[norm] of nothing"));
}

TEST_CASE("NaN, infinities and large magnitudes") {
  const tensor<double, 2> x{{1, not_a_number, 3},   {inf, 2, -inf},      {-inf, -inf, -inf},
                            {1e300, 1e300, -1e300}, {-0.0, 0.0, 1e-300}, {inf, 1, 2}};
  const auto a = ops::values(x);
  check_both(
      fold(a, {1}, false, largest), 0, [](const auto& t) { return max(t, axis<1>); }, x);
  check_both(
      fold(a, {1}, false, smallest), 0, [](const auto& t) { return min(t, axis<1>); }, x);
  check_both(
      fold(a, {1}, false, total), 1e-14, [](const auto& t) { return sum(t, axis<1>); }, x);
  check_both(
      fold(a, {1}, false, log_sum_exp), 1e-14, [](const auto& t) { return logsumexp(t, axis<1>); }, x);
  check_both(
      fold(a, {1}, false, first_largest), 0, [](const auto& t) { return argmax(t, axis<1>); }, x);
  check_both(
      array{{6}, {1, 1, 1, 1, 1, 1}}, 0, [](const auto& t) { return all(t != 0.0 || t == 0.0 || isnan(t), axis<1>); },
      x);
  // Two passes keep the variance of values far from 0.
  const tensor<float, 1> far{10000.f, 10001.f, 10002.f};
  check_both(
      array{{}, {2.0 / 3}}, 1e-6, [](const auto& t) { return var(t); }, far);
  check_both(
      array{{}, {inf}}, 0, [](const auto& t) { return var(t, axis<>, 3) + 0.0f; }, far);
}

TEST_CASE("reductions longer than a block, in rows and in columns") {
  const auto x = ops::sample<float, 2>({2100, 33}, 3);
  const auto a = ops::values(x);
  check_both(
      fold(a, {0}, false, total), 1e-5, [](const auto& t) { return sum(t, axis<0>); }, x);
  check_both(
      fold(a, {0, 1}, false, total), 1e-5, [](const auto& t) { return sum(t); }, x);
  check_both(
      fold(a, {0}, false, largest), 0, [](const auto& t) { return max(t, axis<0>); }, x);
}
