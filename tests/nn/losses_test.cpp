// Losses against loops over plain numbers as PyTorch defines them, on every backend, with derivatives once and twice; vmap; errors.
#include <functional>

#include <sinter/nn.hpp>

#include "../ops/walk.hpp"

using namespace sinter;
using ops::array;
using ops::get;
using ops::make;

namespace {

using matrix = tensor<double, 2>;
using vec = tensor<double, 1>;
using ids = tensor<std::int64_t, 1>;
using doubles = std::vector<double>;

constexpr double infinite = std::numeric_limits<double>::infinity();

/// A loss of two matrices of one shape as a vector, and element by element.
struct pairwise {
  const char* name;
  std::function<vec(const matrix&, const matrix&)> f;
  double (*g)(double, double);
};

vec flat(const matrix& x) { return flatten(x); }

const std::vector<pairwise>& pairs() {
  static const std::vector<pairwise> all{
      {"mse", [](const matrix& x, const matrix& y) { return flat(nn::mse(x, y)); },
       [](double x, double y) { return (x - y) * (x - y); }},
      {"l1", [](const matrix& x, const matrix& y) { return flat(nn::l1(x, y)); },
       [](double x, double y) { return std::abs(x - y); }},
      {"huber", [](const matrix& x, const matrix& y) { return flat(nn::huber(x, y)); },
       [](double x, double y) {
         const double d = std::abs(x - y);
         return d <= 1 ? d * d / 2 : d - 0.5;
       }},
      {"huber of 0.3", [](const matrix& x, const matrix& y) { return flat(nn::huber(x, y, reduce::none, 0.3)); },
       [](double x, double y) {
         const double d = std::abs(x - y);
         return d <= 0.3 ? d * d / 2 : 0.3 * (d - 0.15);
       }},
      {"smooth_l1 of 0.5",
       [](const matrix& x, const matrix& y) { return flat(nn::smooth_l1(x, y, reduce::none, 0.5)); },
       [](double x, double y) {
         const double d = std::abs(x - y);
         return d < 0.5 ? d * d : d - 0.25;
       }},
      {"smooth_l1 of 0", [](const matrix& x, const matrix& y) { return flat(nn::smooth_l1(x, y, reduce::none, 0)); },
       [](double x, double y) { return std::abs(x - y); }},
      {"hinge", [](const matrix& x, const matrix& y) { return flat(nn::hinge(x, y)); },
       [](double x, double y) { return std::max(0.0, 1 - x * y); }},
      {"hinge of 0.2", [](const matrix& x, const matrix& y) { return flat(nn::hinge(x, y, reduce::none, 0.2)); },
       [](double x, double y) { return std::max(0.0, 0.2 - x * y); }},
      {"binary_cross_entropy",
       [](const matrix& x, const matrix& y) { return flat(nn::binary_cross_entropy(x, sigmoid(y))); },
       [](double x, double y) {
         const double t = 1 / (1 + std::exp(-y)), p = 1 / (1 + std::exp(-x));
         return -t * std::log(p) - (1 - t) * std::log(1 - p);
       }},
      {"binary_cross_entropy, weighted",
       [](const matrix& x, const matrix& y) { return flat(nn::binary_cross_entropy(x, sigmoid(y), 2.5)); },
       [](double x, double y) {
         const double t = 1 / (1 + std::exp(-y)), p = 1 / (1 + std::exp(-x));
         return -2.5 * t * std::log(p) - (1 - t) * std::log(1 - p);
       }},
      {"kl_div", [](const matrix& x, const matrix& y) { return flat(nn::kl_div(x, exp(y))); },
       [](double x, double y) { return std::exp(y) * (y - x); }},
      {"kl_div of logarithms",
       [](const matrix& x, const matrix& y) { return flat(nn::kl_div(x, y, reduce::none, {.log_target = true})); },
       [](double x, double y) { return std::exp(y) * (y - x); }},
  };
  return all;
}

struct class_case {
  const char* name;
  bool weighted;
  double smoothing;
  std::int64_t ignore;
};
const class_case class_cases[] = {
    {"plain", false, 0, -100}, {"weights", true, 0, -100}, {"smoothing", false, 0.2, -100}, {"both", true, 0.2, -100},
    {"ignoring", false, 0, 1}, {"all", true, 0.3, 1},      {"ignoring -1", true, 0, -1}};

/// PyTorch's rows, and the weight that each counts with in the mean.
std::pair<doubles, double> classes_of(const array& x, const std::vector<std::int64_t>& labels, const doubles& weights,
                                      const class_case& how) {
  doubles rows;
  double total = 0;
  for (std::int64_t i = 0; i < x.extents[0]; ++i) {
    const std::int64_t label = labels[static_cast<std::size_t>(i)];
    if (label == how.ignore) {
      rows.push_back(0);
      continue;
    }
    double sum = 0, all = 0;
    const std::int64_t n = x.extents[1];
    for (std::int64_t c = 0; c < n; ++c) sum += std::exp(get(x, {i, c}));
    const auto weight = [&](std::int64_t c) { return how.weighted ? weights[static_cast<std::size_t>(c)] : 1; };
    const auto loss = [&](std::int64_t c) { return weight(c) * (std::log(sum) - get(x, {i, c})); };
    for (std::int64_t c = 0; c < n; ++c) all += loss(c);
    rows.push_back((1 - how.smoothing) * loss(label) + how.smoothing / static_cast<double>(n) * all);
    total += weight(label);
  }
  return {rows, total};
}

double sum_of(const doubles& x) {
  double sum = 0;
  for (double v : x) sum += v;
  return sum;
}

array scalar(double x) { return {{}, {x}}; }

}  // namespace

TEST_CASE("losses of elements, and their derivatives") {
  ops::walk w;
  const auto x = ops::between<double, 2>({3, 4}, -2, 2, 1), y = ops::between<double, 2>({3, 4}, -2, 2, 2);
  const auto a = ops::values(x), b = ops::values(y);
  for (const auto& p : pairs()) {
    array want{{12}, {}};
    for (std::size_t i = 0; i < 12; ++i) want.at.push_back(p.g(a.at[i], b.at[i]));
    w.smooth(p.name, want, 1e-14, p.f, x, y);
  }
  doubles squares;
  for (std::size_t i = 0; i < 12; ++i) squares.push_back((a.at[i] - b.at[i]) * (a.at[i] - b.at[i]));
  w.smooth(
      "mean", scalar(sum_of(squares) / 12), 1e-14,
      [](const auto& s, const auto& t) { return nn::mse(s, t, reduce::mean); }, x, y);
  w.smooth(
      "sum", scalar(sum_of(squares)), 1e-14, [](const auto& s, const auto& t) { return nn::mse(s, t, reduce::sum); }, x,
      y);
  w.run();
}

TEST_CASE("losses of classes, and their derivatives") {
  ops::walk w;
  const auto x = ops::between<double, 2>({5, 4}, -2, 2, 1);
  const vec weights{0.5, 2, 1.25, 0};
  const std::vector<std::int64_t> marks{2, 1, 0, 1, 3};
  const ids labels = from_span(marks);
  const array a = ops::values(x);
  for (const auto& how : class_cases) {
    const nn::class_options options{.smoothing = how.smoothing, .ignore = how.ignore};
    const auto [rows, total] = classes_of(a, marks, weights.to_vector(), how);
    using rows_of = std::function<vec(const matrix&)>;
    using mean_of = std::function<tensor<double, 0>(const matrix&)>;
    rows_of each;
    mean_of mean, sum;
    if (how.weighted) {
      each = [=](const matrix& t) { return vec(nn::cross_entropy(t, labels, weights, reduce::none, options)); };
      mean = [=](const matrix& t) { return nn::cross_entropy(t, labels, weights, reduce::mean, options); };
      sum = [=](const matrix& t) { return nn::nll(log_softmax(t), labels, weights, reduce::sum, options); };
    } else {
      each = [=](const matrix& t) { return vec(nn::cross_entropy(t, labels, reduce::none, options)); };
      mean = [=](const matrix& t) { return nn::cross_entropy(t, labels, reduce::mean, options); };
      sum = [=](const matrix& t) { return nn::nll(log_softmax(t), labels, reduce::sum, options); };
    }
    w.smooth(how.name, array{{5}, rows}, 1e-14, each, x);
    w.smooth((std::string("mean, ") + how.name).c_str(), scalar(sum_of(rows) / total), 1e-14, mean, x);
    w.smooth((std::string("sum, ") + how.name).c_str(), scalar(sum_of(rows)), 1e-14, sum, x);
  }
  w.run();
  CHECK(nn::cross_entropy(x, labels, reduce::mean).item() == doctest::Approx(cross_entropy(x, labels).item()));
  CHECK(std::isnan(nn::cross_entropy(x, ids{7, 7, 7, 7, 7}, reduce::mean, {.ignore = 7}).item()));
}

TEST_CASE("losses of vectors, and their derivatives") {
  ops::walk w;
  const auto x = ops::between<double, 2>({4, 3}, -2, 2, 1), y = ops::between<double, 2>({4, 3}, -2, 2, 2),
             z = ops::between<double, 2>({4, 3}, -2, 2, 3);
  const array a = ops::values(x), b = ops::values(y), c = ops::values(z);
  const auto dot = [](const array& u, const array& v, std::int64_t i) {
    return get(u, {i, 0}) * get(v, {i, 0}) + get(u, {i, 1}) * get(v, {i, 1}) + get(u, {i, 2}) * get(v, {i, 2});
  };
  const auto cosine = [&](std::int64_t i) { return dot(a, b, i) / std::sqrt(dot(a, a, i) * dot(b, b, i)); };
  const auto apart = [](const array& u, const array& v, std::int64_t i) {
    double sum = 0;
    for (std::int64_t k = 0; k < 3; ++k) sum += std::pow(get(u, {i, k}) - get(v, {i, k}) + 1e-6, 2);
    return std::sqrt(sum);
  };
  const vec target{1, -1, 1, -1};
  w.smooth(
      "cosine_similarity", make({4}, [&](const auto& at) { return cosine(at[0]); }), 1e-14,
      [](const auto& s, const auto& t) { return nn::cosine_similarity(s, t); }, x, y);
  w.smooth(
      "cosine",
      make({4},
           [&](const auto& at) { return at[0] % 2 == 0 ? 1 - cosine(at[0]) : std::max(0.0, cosine(at[0]) + 0.9); }),
      1e-11, [&](const auto& s, const auto& t) { return nn::cosine(s, t, target, reduce::none, -0.9); }, x, y);
  for (const bool swap : {false, true}) {
    w.smooth(
        "triplet",
        make({4},
             [&](const auto& at) {
               const std::int64_t i = at[0];
               const double far = swap ? std::min(apart(a, c, i), apart(b, c, i)) : apart(a, c, i);
               return std::max(0.0, apart(a, b, i) - far + 1.5);
             }),
        1e-14,
        [swap](const auto& s, const auto& t, const auto& u) {
          return nn::triplet(s, t, u, reduce::none, {.margin = 1.5, .swap = swap});
        },
        x, y, z);
  }
  w.smooth(
      "hinge_embedding",
      make({4, 3}, [&](const auto& at) { return at[0] % 2 == 0 ? get(a, at) : std::max(0.0, 0.5 - get(a, at)); }),
      1e-14, [&](const auto& s) { return nn::hinge_embedding(s, expand_dims<1>(target), reduce::none, 0.5); }, x);
  w.run();
}

TEST_CASE("second derivatives are those of differences of first ones") {
  options how;
  how.backend = "reference";
  const matrix y = ops::between<double, 2>({2, 3}, -2, 2, 7);
  const std::vector<std::pair<const char*, std::function<tensor<double, 0>(const matrix&)>>> losses{
      {"cross_entropy",
       [](const matrix& x) {
         return nn::cross_entropy(x, ids{2, 0}, vec{1, 2, 3}, reduce::mean, {.smoothing = 0.1});
       }},
      {"binary_cross_entropy",
       [y](const matrix& x) { return nn::binary_cross_entropy(x, sigmoid(y), 2, reduce::sum); }},
      {"kl_div", [y](const matrix& x) { return nn::kl_div(log_softmax(x), exp(y), reduce::sum); }},
      {"huber", [y](const matrix& x) { return nn::huber(x * x, y, reduce::mean); }},
      {"cosine",
       [y](const matrix& x) {
         return nn::cosine(x, y, vec{1, -1}, reduce::sum, -1);
       }},
      {"triplet", [y](const matrix& x) { return nn::triplet(x, y, y + 3, reduce::sum, {.margin = 9}); }}};
  for (const auto& row : losses) {
    CAPTURE(std::string(row.first));
    const auto f = row.second;
    const auto slope = compile(grad(f), how);
    const matrix along = ops::between<double, 2>({2, 3}, -1, 1, 8);
    const auto bend = compile(
        [&](const matrix& x) {
          return grad([&](const matrix& v) { return tensor<double, 0>(sum(grad(f)(v) * along)); })(x);
        },
        how);
    const matrix x = ops::between<double, 2>({2, 3}, -2, 2, 9);
    const double h = 1e-5;
    ops::check_equal(ops::values(bend(x)), ops::values(matrix((slope(x + h * along) - slope(x - h * along)) / (2 * h))),
                     1e-7);
  }
}

TEST_CASE("losses at infinity, of halves, of nothing, in lanes") {
  const vec far{1e300, -1e300, 800, -800, infinite}, one{1, 0, 1, 1, 0};
  CHECK(nn::binary_cross_entropy(far, one).to_vector() == doubles{0, 0, 0, 800, infinite});
  const vec agree{infinite, -infinite, infinite, -infinite}, say{1, 0, 0, 1};
  for (const char* backend : {"reference", "cpu"}) {
    options how;
    how.backend = backend;
    CHECK(compile([](const vec& x, const vec& t) { return vec(nn::binary_cross_entropy(x, t)); }, how)(agree, say)
              .to_vector() == doubles{0, 0, infinite, infinite});
  }
  CHECK(nn::binary_cross_entropy(agree, say, 2).to_vector() == doubles{0, 0, infinite, infinite});
  CHECK(grad([&](const vec& x) { return nn::binary_cross_entropy(x, say, reduce::sum); })(agree).to_vector() ==
        doubles{0, 0, 1, -1});
  const tensor<float, 2> huge{{1e10f, 1e10f}}, back{{-1e10f, -1e10f}};
  CHECK(nn::cosine(huge, huge, tensor<float, 1>{1}).item() == doctest::Approx(0).epsilon(1e-6));
  CHECK(nn::cosine(huge, back, tensor<float, 1>{1}).item() == doctest::Approx(2).epsilon(1e-6));
  CHECK(nn::kl_div(vec{-infinite, -1}, vec{0, 0}).to_vector() == doubles{0, 0});
  CHECK(grad([](const vec& x) {
          return nn::binary_cross_entropy(x, vec{1, 1}, reduce::sum);
        })(vec{-1e300, 1e300})
            .to_vector() == doubles{-1, 0});
  CHECK(nn::huber(vec{1e200}, vec{-1e200}).item() == 2e200);
  const tensor<f16, 1> big{f16(300.f), f16(300.f)}, none{f16(0.f), f16(0.f)};
  CHECK(static_cast<float>(nn::huber(big, none, reduce::mean).item()) == 299.5f);
  CHECK(nn::mse(zeros<float>(0), zeros<float>(0), reduce::sum).item() == 0);
  CHECK(nn::cross_entropy(zeros<float>(0, 3), zeros<std::int64_t>(0)).numel() == 0);
  const auto x = ops::between<double, 3>({2, 3, 4}, -2, 2);
  const auto labels = tensor<std::int64_t, 2>{{1, 0, 3}, {2, 2, 1}};
  const auto lanes = vmap([](const matrix& l, const ids& i) {
                       return nn::cross_entropy(l, i, reduce::mean, {.smoothing = 0.1, .ignore = 2});
                     })(x, labels)
                         .to_vector();
  for (std::int64_t i = 0; i < 2; ++i)
    CHECK(ops::close(
        lanes[static_cast<std::size_t>(i)],
        nn::cross_entropy(matrix(reshape(slice<0>(x, i, i + 1), 3, 4)), ids(reshape(slice<0>(labels, i, i + 1), -1)),
                          reduce::mean, {.smoothing = 0.1, .ignore = 2})
            .item(),
        1e-14));
}

TEST_CASE("rows that do not count") {
  const double no_number = std::nan("");
  const matrix x{{1, 2, 4}, {no_number, 0, infinite}, {0, 1, 0}};
  const vec weights{1, 2, 4};
  const ids labels{1, -100, 2};
  // Of what is in an ignored row nothing gets into derivatives.
  const auto slopes = [&](const matrix& x, const vec& w) {
    return grad<0, 1>([&](const matrix& x, const vec& w) {
      return tensor<double, 0>(nn::cross_entropy(x, labels, w, reduce::mean) +
                               nn::nll(x, labels, w, reduce::sum, {.smoothing = 0.1}) +
                               nn::nll(x, labels, w, reduce::sum));
    })(x, w);
  };
  const matrix tame{{1, 2, 4}, {5, 6, 7}, {0, 1, 0}};
  const auto [by_x, by_weights] = slopes(x, weights);
  const auto [want_x, want_weights] = slopes(tame, weights);
  ops::check_equal(ops::values(by_x), ops::values(want_x), 1e-14);
  ops::check_equal(ops::values(by_weights), ops::values(want_weights), 1e-14);
  CHECK(by_x(1, 0) == 0);
  // Compiled, labels out of range are as ignored ones.
  for (const char* backend : {"reference", "cpu"}) {
    options how;
    how.backend = backend;
    const auto f = [&](const matrix& x, const ids& l) {
      return vec(concat<0>(nn::cross_entropy(x, l, weights, reduce::none, {.smoothing = 0.1}), nn::nll(x, l),
                           expand_dims<0>(nn::cross_entropy(x, l, weights, reduce::mean))));
    };
    const auto g = compile(f, how);
    ops::check_equal(ops::values(g(tame, ids{1, 7, 2})), ops::values(f(tame, labels)), 1e-14);
    ops::check_equal(ops::values(g(tame, ids{1, -1, 2})), ops::values(f(tame, labels)), 1e-14);
  }
}

TEST_CASE("what losses refuse") {
  const auto error = [](auto f) { return ops::error_of(f); };
  const auto x = ones<float>(2, 3);
  CHECK(ops::contains(error([&] { (void)nn::cross_entropy(x, ids{0, 3}); }), "[nn::cross_entropy]"));
  CHECK(ops::contains(error([&] { (void)nn::cross_entropy(x, ids{0, 1, 2}); }), "labels are (3,)"));
  CHECK(ops::contains(error([&] { (void)nn::nll(x, ids{0, -1}); }), "[nn::nll]"));
  const auto short_of = [](const tensor<float, 2>& x) {
    return nn::cross_entropy(x, ids{0, 1}, tensor<float, 1>{1, 2}, reduce::mean);
  };
  const char* const told = "weights are (2,), classes are along the last axis of (2, 3); there is a weight a class";
  CHECK(ops::contains(error([&] { (void)short_of(x); }), told));
  CHECK(ops::contains(error([&] { (void)compile(short_of, {.backend = "reference"})(x); }), told));
  CHECK(ops::contains(error([&] { (void)nn::nll(x, ids{0, 1}, ones<float>(4)); }), "weights are (4,)"));
  CHECK(ops::contains(error([&] {
                        (void)nn::cross_entropy(x, ids{0, 1}, reduce::sum, {.smoothing = 2});
                      }),
                      "smoothing must be in [0, 1]; it is 2"));
  CHECK(ops::contains(error([&] { (void)nn::huber(x, x, reduce::mean, 0); }), "[nn::huber] delta must be above 0"));
  CHECK(ops::contains(error([&] { (void)nn::smooth_l1(x, x, reduce::mean, -1); }),
                      "[nn::smooth_l1] beta must be 0 or more"));
}

namespace {

/// f(name, a loss of two tensors) of each loss of elements.
template <class F>
void each_loss(const F& f) {
  f("mse_loss", [](const auto& x, const auto& y) { return mse_loss(x, y); });
  f("nn::mse", [](const auto& x, const auto& y) { return nn::mse(x, y, reduce::mean); });
  f("nn::l1", [](const auto& x, const auto& y) { return nn::l1(x, y, reduce::mean); });
  f("nn::huber", [](const auto& x, const auto& y) { return nn::huber(x, y, reduce::mean); });
  f("nn::smooth_l1", [](const auto& x, const auto& y) { return nn::smooth_l1(x, y, reduce::mean); });
  f("nn::hinge", [](const auto& x, const auto& y) { return nn::hinge(x, y, reduce::mean); });
  f("nn::hinge_embedding", [](const auto& x, const auto& y) { return nn::hinge_embedding(x, y, reduce::mean); });
  f("nn::kl_div", [](const auto& x, const auto& y) { return nn::kl_div(x, y, reduce::mean); });
  f("nn::binary_cross_entropy",
    [](const auto& x, const auto& y) { return nn::binary_cross_entropy(x, y, reduce::mean); });
}

const options fixed{.backend = "reference"}, open{.dynamic = dynamic::yes, .backend = "reference"};

/// That f(x…) is refused eagerly, compiled and with open extents.
template <class F, class... X>
void refuses(const char* what, const F& f, const X&... x) {
  for (const std::string& text :
       {ops::error_of([&] { (void)f(x...); }), ops::error_of([&] { (void)compile(f, fixed)(x...); }),
        ops::error_of([&] { (void)compile(f, open)(x...); })}) {
    CHECK_MESSAGE(ops::contains(text, what), text);
    CHECK(ops::contains(text, "losses_test.cpp:"));
  }
}

}  // namespace

TEST_CASE("losses repeat one operand and not both") {
  each_loss([](const std::string& name, const auto& loss) {
    INFO(name);
    const auto f = [&](const auto& x, const auto& y) { return tensor<double, 0>(loss(x, y)); };
    const auto x = ops::between<double, 2>({6, 3}, 0.1, 0.9, 1);
    const auto no = [&](const char* shapes, const auto& a, const auto& b) {
      refuses(("[" + name + "] no operand has the shape that they broadcast to: " + shapes).c_str(), f, a, b);
    };
    const matrix column = slice<1>(x, 0, 1), row = slice<0>(x, 0, 1);
    const vec flat_column = reshape(column, 6);
    no("a is (6, 1), b is (6,)", column, flat_column);
    no("a is (6,), b is (6, 1)", flat_column, column);
    no("a is (6, 1), b is (1, 3)", column, row);
    no("a is (3,), b is (6, 1)", vec(reshape(row, 3)), column);
    no("a is (6, 1, 3), b is (6, 3)", tensor<double, 3>(reshape(x, 6, 1, 3)), x);
    // What stays: the repeated operand by its rows, its only row, its number, its column.
    const auto same = [&](const auto& a, const auto& y) {
      const auto shape = a.shape();
      const auto whole = evaluate(broadcast_to(y, shape).contiguous());
      const double want = f(a, whole).item();
      CHECK(f(a, y).item() == doctest::Approx(want));
      CHECK(compile(f, fixed)(a, y).item() == doctest::Approx(want));
      CHECK(f(y, a).item() == doctest::Approx(f(whole, a).item()));
      const auto any = compile(f, open);
      CHECK(any(a, y).item() == doctest::Approx(want));
    };
    same(x, row);
    same(x, vec(reshape(row, 3)));
    same(x, tensor<double, 0>(0.4));
    same(x, column);
    same(matrix(slice<0>(column, 0, 1)), vec(slice<0>(flat_column, 0, 1)));
    // n is open, and one trace is for all n.
    const auto any = compile(f, open);
    for (const std::int64_t n : {6, 9, 2, 31}) {
      const auto more = ops::between<double, 2>({n, 3}, 0.1, 0.9, static_cast<int>(n));
      CHECK(any(more, row).item() == doctest::Approx(f(more, row).item()));
    }
    CHECK(any.specialisations() == 1);
  });
}

TEST_CASE("weights of a loss, rows and targets, and the three of a triplet belong together") {
  const auto x = ops::between<double, 2>({4, 3}, -1, 1, 1), y = ops::between<double, 2>({4, 3}, 0.1, 0.9, 2);
  const auto weighted = [](const auto& x, const auto& t, const auto& p) {
    return matrix(nn::binary_cross_entropy(x, t, p));
  };
  const vec p{1, 2, 3};
  CHECK(weighted(x, y, p).to_vector() == weighted(x, y, matrix(broadcast_to(p, 4, 3))).to_vector());
  refuses("[nn::binary_cross_entropy] the weight is (3,), the operands are (4, 1) and (4, 1); the weight broadcasts",
          weighted, matrix(slice<1>(x, 0, 1)), matrix(slice<1>(y, 0, 1)), p);
  refuses(
      "[nn::binary_cross_entropy] the weight is (2, 4, 3), the operands are",
      [](const auto& x, const auto& t, const auto& p) { return nn::binary_cross_entropy(x, t, p); }, x, y,
      tensor<double, 3>(ones<double>(2, 4, 3)));
  const auto cosine = [](const auto& x, const auto& y, const auto& t) { return nn::cosine(x, y, t); };
  const vec signs{1, -1, 1, 1};
  CHECK(cosine(x, tensor<double, 1>{1, 2, 3}, signs).numel() == 4);
  CHECK(cosine(x, y, tensor<double, 0>(1)).numel() == 4);
  refuses("[nn::cosine] no operand has the shape that they broadcast to: a is (4,), b is (4, 1)", cosine, x, y,
          matrix(reshape(signs, 4, 1)));
  refuses("[nn::cosine] no operand has the shape that they broadcast to: a is (4, 1, 3), b is (4, 3)", cosine,
          tensor<double, 3>(reshape(x, 4, 1, 3)), y, signs);
  const auto triplet = [](const auto& a, const auto& p, const auto& n) { return nn::triplet(a, p, n); };
  CHECK(triplet(x, y, matrix(slice<0>(x, 0, 1))).numel() == 4);
  refuses(
      "[nn::triplet] no operand has the shape that they broadcast to: a is (4, 1, 3), b is (4, 1, 3), c is (1, 4, 3)",
      triplet, tensor<double, 3>(reshape(x, 4, 1, 3)), tensor<double, 3>(reshape(y, 4, 1, 3)),
      tensor<double, 3>(reshape(y, 1, 4, 3)));
}
