// softmax, normalisation and losses against f64 loops, eagerly and traced; stability, odd rows, labels out of range.
#include <limits>

#include <sinter/front/functions/factories.hpp>
#include <sinter/front/functions/nn.hpp>
#include <sinter/sinter.hpp>

#include "../ops_support.hpp"

using namespace sinter;
using ops::array;
using ops::check_both;
using ops::coord;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), not_a_number = std::numeric_limits<double>::quiet_NaN();

/// f(row) replaces every run along the last axis.
template <class F>
array by_rows(array a, F&& f) {
  const auto n = static_cast<std::size_t>(a.extents.back());
  for (std::size_t i = 0; n > 0 && i < a.at.size(); i += n) {
    std::vector<double> row(a.at.begin() + static_cast<std::ptrdiff_t>(i),
                            a.at.begin() + static_cast<std::ptrdiff_t>(i + n));
    row = f(row);
    std::copy(row.begin(), row.end(), a.at.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return a;
}

using row = std::vector<double>;
row log_softmax_row(row r) {
  const double m = *std::max_element(r.begin(), r.end());
  double s = 0;
  for (double x : r) s += std::exp(x - m);
  for (double& x : r) x = x - m - std::log(s);
  return r;
}
row softmax_row(row r) {
  r = log_softmax_row(r);
  for (double& x : r) x = std::exp(x);
  return r;
}
row standard_row(row r, double eps) {
  double m = 0, v = 0;
  for (double x : r) m += x / static_cast<double>(r.size());
  for (double x : r) v += (x - m) * (x - m) / static_cast<double>(r.size());
  for (double& x : r) x = (x - m) / std::sqrt(v + eps);
  return r;
}

const auto x = ops::sample<double, 2>({5, 7}, 3);

}  // namespace

TEST_CASE("softmax and log_softmax, along any axis") {
  const auto a = ops::values(x);
  check_both(
      by_rows(a, softmax_row), 1e-14, [](const auto& t) { return softmax(t); }, x);
  check_both(
      by_rows(a, log_softmax_row), 1e-14, [](const auto& t) { return log_softmax(t); }, x);
  check_both(
      by_rows(a, softmax_row), 1e-14, [](const auto& t) { return transpose(softmax<0>(transpose(t))); }, x);
  check_both(
      by_rows(a, log_softmax_row), 1e-14, [](const auto& t) { return transpose(log_softmax(transpose(t), axis<0>)); },
      x);
  check_both(
      array{{0, 3}, {}}, 0, [](const auto& t) { return softmax(t); }, ops::sample<float, 2>({0, 3}));
  check_both(
      array{{2, 1}, {1, 1}}, 0, [](const auto& t) { return softmax(t); }, ops::sample<float, 2>({2, 1}));
}

TEST_CASE("softmax of large magnitudes and infinities") {
  const tensor<float, 2> t{{1e30f, 1e30f, -1e30f}, {-1000.f, -1001.f, -1002.f}, {0, -INFINITY, 0}};
  const auto a = ops::values(t);
  check_both(
      by_rows(a, softmax_row), 1e-6, [](const auto& v) { return softmax(v); }, t);
  const tensor<float, 2> none{{-INFINITY, -INFINITY}, {INFINITY, 0}, {NAN, 0}};
  const double n = not_a_number;
  check_both(
      array{{3, 2}, {n, n, n, n, n, n}}, 0, [](const auto& v) { return softmax(v); }, none);
  check_both(
      array{{3}, {-inf, inf, n}}, 0, [](const auto& v) { return logsumexp(v, axis<-1>); }, none);
}

TEST_CASE("softmax over an empty axis is empty, what is one number of it an error") {
  const auto all = [](const auto& f) {
    using X = tensor<float, 2>;
    const auto open = compile([&](const X& x) { return X(f(x)); }, {.dynamic = dynamic::yes, .backend = "reference"});
    CHECK(open(ones<float>(3, 2)).numel() == 6);
    for (const X& x : {X(zeros<float>(3, 0)), X(zeros<float>(0, 3)), X(zeros<float>(0, 0))}) {
      CHECK(f(x).shape() == x.shape());
      CHECK(f(x * 2.f + 1.f).shape() == x.shape());
      CHECK(compile([&](const X& x) { return X(f(x)); })(x).shape() == x.shape());
      CHECK(open(x).shape() == x.shape());
      CHECK(grad([&](const X& x) { return sum(f(x)); })(x).shape() == x.shape());
      CHECK(f(cast<f16>(x)).shape() == x.shape());
      check_both(
          array{{x.size(0), x.size(1)}, {}}, 0, [&](const auto& t) { return f(t); }, x);
    }
  };
  all([](const auto& x) { return softmax(x); });
  all([](const auto& x) { return softmax<0>(x); });
  all([](const auto& x) { return log_softmax(x); });
  all([](const auto& x) { return log_softmax(x, axis<0>); });
  const tensor<float, dims{2, 0}> known;
  static_assert(decltype(softmax(known))::static_shape == dims{2, 0});
  const auto x = zeros<float>(3, 0);
  CHECK(ops::contains(ops::error_of([&] { (void)logsumexp(x, axis<1>); }), "[logsumexp] of nothing"));
  CHECK(ops::contains(ops::error_of([&] { (void)max(x, axis<1>); }), "[max] of nothing"));
  CHECK(ops::contains(ops::error_of([&] { (void)norm<norm_max>(x, axis<1>); }), "[norm] of nothing"));
}

TEST_CASE("halves are computed in f32 and rounded once") {
  const auto h = ops::sample<f16, 2>({3, 5}, 8);
  check_both(
      by_rows(ops::values(h), softmax_row), 5e-4, [](const auto& t) { return softmax(t); }, h);
  check_both(
      by_rows(ops::values(h), [](row r) { return standard_row(r, 1e-5); }), 1e-3,
      [](const auto& t) { return layer_norm(t); }, h);
  static_assert(std::is_same_v<decltype(softmax(h))::value_type, f16>);
}

TEST_CASE("layer_norm and rms_norm") {
  const auto gamma = ops::sample<double, 1>({7}, 4), beta = ops::sample<double, 1>({7}, 5);
  const auto a = ops::values(x), g = ops::values(gamma), b = ops::values(beta);
  check_both(
      by_rows(a, [](row r) { return standard_row(r, 1e-3); }), 1e-13, [](const auto& t) { return layer_norm(t, 1e-3); },
      x);
  check_both(
      by_rows(a,
              [&](row r) {
                r = standard_row(r, 1e-5);
                for (std::size_t i = 0; i < r.size(); ++i) r[i] = r[i] * g.at[i] + b.at[i];
                return r;
              }),
      1e-13, [](const auto& t, const auto& p, const auto& q) { return layer_norm(t, p, q); }, x, gamma, beta);
  const auto unit_rms = [](row r, double eps) {
    double s = 0;
    for (double v : r) s += v * v / static_cast<double>(r.size());
    for (double& v : r) v /= std::sqrt(s + eps);
    return r;
  };
  check_both(
      by_rows(a, [&](row r) { return unit_rms(r, 1e-3); }), 1e-13, [](const auto& t) { return rms_norm(t, 1e-3); }, x);
  check_both(
      by_rows(a,
              [&](row r) {
                r = unit_rms(r, 1e-5);
                for (std::size_t i = 0; i < r.size(); ++i) r[i] *= g.at[i];
                return r;
              }),
      1e-13, [](const auto& t, const auto& p) { return rms_norm(t, p); }, x, gamma);
  // A constant row has no variance.
  check_both(
      array{{1, 3}, {0, 0, 0}}, 0, [](const auto& t) { return layer_norm(t); }, tensor<float, 2>{{5, 5, 5}});
}

TEST_CASE("cross_entropy is the mean of -log_softmax at the labels") {
  const tensor<std::int64_t, 1> y{6, 0, 3, 3, 1};
  const auto l = by_rows(ops::values(x), log_softmax_row);
  double mean = 0;
  for (std::int64_t i = 0; i < 5; ++i) mean -= ops::get(l, {i, y(i)}) / 5;
  check_both(
      array{{}, {mean}}, 1e-14, [](const auto& t, const auto& k) { return cross_entropy(t, k); }, x, y);
  check_both(
      array{{}, {mean}}, 1e-14,
      [](const auto& t, const auto& k) { return cross_entropy(t * 1.0, cast<std::int32_t>(k).eval()); }, x, y);
  const auto cube = reshape(x, 5, 1, 7);
  check_both(
      array{{}, {mean}}, 1e-14, [](const auto& t, const auto& k) { return cross_entropy(t, reshape(k, 5, 1)); }, cube,
      y);
  const tensor<float, 2> far{{1e4f, 1e4f - 1, 0}, {-3e4f, 3e4f, 0}};
  check_both(
      array{{}, {(1 + std::log1p(std::exp(-1.0)) + 0) / 2}}, 1e-6,
      [](const auto& t, const auto& k) { return cross_entropy(t, k); }, far, tensor<std::int64_t, 1>{1, 1});
}

TEST_CASE("cross_entropy refuses labels out of range and shapes that differ") {
  const auto at = [](std::int64_t label) {
    return ops::error_of([=] { (void)cross_entropy(x, tensor<std::int64_t, 1>{0, 0, label, 0, 0}); });
  };
  CHECK(ops::contains(at(7), "[cross_entropy] index 7 at position (2,)"));
  CHECK(ops::contains(at(-1), "index -1"));
  CHECK(at(6).empty());
  CHECK(ops::contains(ops::error_of([] {
                        (void)cross_entropy(x, tensor<std::int64_t, 1>{0, 0});
                      }),
                      "logits are (5, 7), labels are (2,)"));
}

TEST_CASE("shapes that do not broadcast are an error of the function that was called") {
  const auto narrow = ops::sample<double, 1>({3}, 1);
  const auto check = [&] {
    CHECK(
        ops::contains(ops::error_of([&] { (void)mse_loss(x, narrow); }), "[mse_loss] shapes do not broadcast: (5, 7)"));
    CHECK(ops::contains(ops::error_of([&] { (void)layer_norm(x, narrow, narrow); }), "[layer_norm] shapes do not"));
    CHECK(ops::contains(ops::error_of([&] { (void)rms_norm(x, narrow); }), "[rms_norm] shapes do not broadcast"));
  };
  check();
  const engine::tracing_scope scope(std::make_shared<engine::tracer>());
  check();
}

TEST_CASE("mse_loss broadcasts") {
  const auto y = ops::sample<double, 1>({7}, 9);
  double s = 0;
  for (std::int64_t i = 0; i < 35; ++i)
    s += std::pow(ops::values(x).at[std::size_t(i)] - ops::values(y).at[std::size_t(i % 7)], 2) / 35;
  check_both(
      array{{}, {s}}, 1e-14, [](const auto& a, const auto& b) { return mse_loss(a, b); }, x, y);
}
