// Optimizers against loops in double that follow PyTorch's formulas, eagerly and by the reference backend; schedules; what stands
// around optimizers; kernels as many as a hand-written step has; what is refused.
#include <functional>

#include "../close.hpp"
#include "steps.hpp"

using namespace sinter;

namespace {

using doubles = std::vector<double>;

/// Parameters of two dtypes and ranks, an integer that no optimizer touches, and configuration.
struct leaves {
  tensor<double, 2> w;
  tensor<float, 1> b;
  tensor<std::int64_t, 1> n;
  int kind = 3;
};

constexpr std::size_t count = 8;  // 6 of w, 2 of b

leaves made(const doubles& x) {
  return {from_span(doubles(x.begin(), x.begin() + 6), 2, 3), from_span(std::vector<float>(x.begin() + 6, x.end())),
          tensor<std::int64_t, 1>{7, 9}};
}
doubles numbers(const leaves& p) {
  doubles out = p.w.to_vector();
  for (const float x : p.b.to_vector()) out.push_back(x);
  return out;
}

double gradient(std::size_t i, int t) {
  return std::sin(1 + 0.7 * static_cast<double>(i) + 1.3 * t) * (0.5 + static_cast<double>(i));
}
leaves gradients(int t) {
  doubles g(count);
  for (std::size_t i = 0; i < count; ++i) g[i] = gradient(i, t);
  return made(g);
}
doubles begun() {
  doubles x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = std::cos(2.0 * static_cast<double>(i)) * 1.5;
  return x;
}

/// What an optimizer makes of the parameters in five steps, eagerly; the reference backend agrees, in one specialisation.
template <class O>
doubles run(const O& opt, int steps = 5) {
  leaves p = made(begun()), q = p;
  auto state = opt.init(p), other = state;
  const auto step = compile([&](const leaves& p, const leaves& g, const auto& s) { return opt.update(p, g, s); },
                            {.backend = "reference"});
  for (int t = 0; t < steps; ++t) {
    std::tie(p, state) = opt.update(p, gradients(t), state);
    std::tie(q, other) = step(q, gradients(t), other);
  }
  CHECK(step.specialisations() == 1);
  check_close(numbers(q), numbers(p), 1e-6);
  CHECK(p.n.to_vector() == std::vector<std::int64_t>{7, 9});
  return numbers(p);
}

/// A formula of one number: p, its gradient, three numbers of its own, and the step, from 0. `i`: which number it is.
using formula = std::function<void(double& p, double g, double (&s)[3], int t, std::size_t i)>;
doubles expected(const formula& f, int steps = 5) {
  doubles x = begun();
  for (std::size_t i = 0; i < count; ++i) {
    double s[3] = {};
    for (int t = 0; t < steps; ++t) f(x[i], gradient(i, t), s, t, i);
  }
  return x;
}

formula adam_formula(double rate, double decay, double coupled, bool matrices_only = false) {
  return [=](double& p, double g, double(&s)[3], int t, std::size_t i) {
    const double w = matrices_only && i >= 6 ? 0 : decay;
    p -= rate * w * p;
    g += coupled * p;
    s[0] = 0.9 * s[0] + 0.1 * g;
    s[1] = 0.99 * s[1] + 0.01 * g * g;
    p -= rate * s[0] / (1 - std::pow(0.9, t + 1)) / (std::sqrt(s[1] / (1 - std::pow(0.99, t + 1))) + 1e-3);
  };
}

template <class F>
void says(const F& f, const char* what) {
  try {
    f();
    FAIL_CHECK("nothing was thrown, not ", what);
  } catch (const user_error& e) {
    const std::string text = e.what();
    CHECK_MESSAGE(text.find(what) != std::string::npos, text);
    CHECK_MESSAGE(text.find("optimizers_test.cpp") != std::string::npos, text);
  }
}

}  // namespace

TEST_CASE("SGD with momentum, Nesterov's rule and decay") {
  for (const bool nesterov : {false, true})
    check_close(run(optim::sgd({.rate = 0.1, .momentum = 0.8, .nesterov = nesterov, .weight_decay = 0.3})),
                expected([=](double& p, double g, double(&s)[3], int, std::size_t) {
                  g += 0.3 * p;
                  s[0] = 0.8 * s[0] + g;
                  p -= 0.1 * (nesterov ? g + 0.8 * s[0] : s[0]);
                }),
                2e-6);
  check_close(run(optim::sgd({.rate = 0.1})),
              expected([](double& p, double g, auto&, int, std::size_t) { p -= 0.1 * g; }), 2e-6);
}

TEST_CASE("Adam and AdamW, decay of some by their paths") {
  check_close(run(optim::adam({.rate = 0.1, .beta2 = 0.99, .eps = 1e-3, .weight_decay = 0.2})),
              expected(adam_formula(0.1, 0, 0.2)), 2e-6);
  check_close(run(optim::adamw({.rate = 0.1, .beta2 = 0.99, .eps = 1e-3, .weight_decay = 0.2})),
              expected(adam_formula(0.1, 0.2, 0)), 2e-6);
  check_close(
      run(optim::adamw({.rate = 0.1, .beta2 = 0.99, .eps = 1e-3, .weight_decay = 0.2, .decay = optim::matrices})),
      expected(adam_formula(0.1, 0.2, 0, true)), 2e-6);
  std::vector<std::string> seen;
  const auto by_path = [&](const std::string& path) {
    seen.push_back(path);
    return path == "w";
  };
  const optim::adamw opt({.rate = 0.1, .beta2 = 0.99, .eps = 1e-3, .weight_decay = 0.2, .decay = by_path});
  leaves p = made(begun());
  check_close(numbers(opt.update(p, gradients(0), opt.init(p)).first), expected(adam_formula(0.1, 0.2, 0, true), 1),
              2e-6);
  CHECK(seen == std::vector<std::string>{"w", "b", "n"});
}

TEST_CASE("Lion, RMSProp, Adagrad") {
  check_close(run(optim::lion({.rate = 0.1, .weight_decay = 0.2})),
              expected([](double& p, double g, double(&s)[3], int, std::size_t) {
                const double u = 0.9 * s[0] + 0.1 * g;
                p = p * (1 - 0.1 * 0.2) - 0.1 * ((u > 0) - (u < 0));
                s[0] = 0.99 * s[0] + 0.01 * g;
              }),
              2e-6);
  for (const double momentum : {0.0, 0.5})
    check_close(run(optim::rmsprop({.rate = 0.1, .alpha = 0.9, .momentum = momentum, .weight_decay = 0.1})),
                expected([=](double& p, double g, double(&s)[3], int, std::size_t) {
                  g += 0.1 * p;
                  s[0] = 0.9 * s[0] + 0.1 * g * g;
                  s[1] = momentum * s[1] + g / (std::sqrt(s[0]) + 1e-8);
                  p -= 0.1 * s[1];
                }),
                1e-5);
  check_close(run(optim::adagrad({.rate = 0.1, .first = 0.5, .weight_decay = 0.1})),
              expected([](double& p, double g, double(&s)[3], int t, std::size_t) {
                if (t == 0) s[0] = 0.5;
                g += 0.1 * p;
                s[0] += g * g;
                p -= 0.1 * g / (std::sqrt(s[0]) + 1e-10);
              }),
              2e-6);
}

TEST_CASE("Muon steps matrices along an orthogonal factor, the others as AdamW") {
  const optim::muon opt({.rate = 0.1,
                         .momentum = 0.8,
                         .weight_decay = 0.3,
                         .others = {.rate = 0.1, .beta2 = 0.99, .eps = 1e-3, .weight_decay = 0.2}});
  doubles want = expected(adam_formula(0.1, 0.2, 0)), m(6), w = begun();
  const auto product = [](const doubles& a, const doubles& b, std::size_t r, std::size_t k, std::size_t c) {
    doubles y(r * c);
    for (std::size_t i = 0; i < r; ++i)
      for (std::size_t j = 0; j < c; ++j)
        for (std::size_t n = 0; n < k; ++n) y[i * c + j] += a[i * k + n] * b[n * c + j];
    return y;
  };
  for (int t = 0; t < 5; ++t) {
    doubles x(6), turned(6);
    double size = 0;
    for (std::size_t i = 0; i < 6; ++i) {
      m[i] = 0.8 * m[i] + 0.2 * gradient(i, t);
      x[i] = 0.8 * m[i] + 0.2 * gradient(i, t);
      size += x[i] * x[i];
    }
    for (auto& v : x) v /= std::sqrt(size);
    for (int n = 0; n < 5; ++n) {
      for (std::size_t i = 0; i < 6; ++i) turned[i % 3 * 2 + i / 3] = x[i];
      const doubles a = product(x, turned, 2, 3, 2), aa = product(a, a, 2, 2, 2);
      doubles b(4);
      for (std::size_t i = 0; i < 4; ++i) b[i] = -4.775 * a[i] + 2.0315 * aa[i];
      const doubles bx = product(b, x, 2, 2, 3);
      for (std::size_t i = 0; i < 6; ++i) x[i] = 3.4445 * x[i] + bx[i];
    }
    for (std::size_t i = 0; i < 6; ++i) w[i] = w[i] * (1 - 0.1 * 0.3) - 0.1 * std::sqrt(1.5) * x[i];
  }
  std::copy(w.begin(), w.begin() + 6, want.begin());
  check_close(run(opt), want, 5e-6);
  CHECK(opt.init(made(begun())).second.w.numel() == 0);
}

TEST_CASE("L-BFGS as PyTorch's, without a line search") {
  using vec = tensor<double, 1>;
  const optim::lbfgs opt({.rate = 0.5, .history = 2});
  const auto slope = [](const doubles& x) {
    doubles g(4);
    for (std::size_t i = 0; i < 4; ++i)
      g[i] = static_cast<double>(i + 1) * x[i] + x[i] * x[i] * x[i] - (i ? 0.5 * x[i - 1] : 0);
    return g;
  };
  const auto dot = [](const doubles& a, const doubles& b) {
    double y = 0;
    for (std::size_t i = 0; i < a.size(); ++i) y += a[i] * b[i];
    return y;
  };
  doubles x{1, -2, 0.5, 3}, before, g_before;
  std::vector<doubles> moves, turns;
  double scale = 1;
  vec p = from_span(x), q = p;
  auto state = opt.init(std::tuple{p}), other = state;
  const auto step =
      compile([&](const std::tuple<vec>& p, const std::tuple<vec>& g, const auto& s) { return opt.update(p, g, s); },
              {.backend = "reference"});
  for (int t = 0; t < 6; ++t) {
    const doubles g = slope(x);
    if (t > 0) {
      doubles s(4), y(4);
      for (std::size_t i = 0; i < 4; ++i) s[i] = x[i] - before[i], y[i] = g[i] - g_before[i];
      if (dot(s, y) > 1e-10) {
        moves.push_back(s), turns.push_back(y);
        if (moves.size() > 2) moves.erase(moves.begin()), turns.erase(turns.begin());
        scale = dot(s, y) / dot(y, y);
      }
    }
    doubles d = g, a(moves.size());
    for (std::size_t n = moves.size(); n-- > 0;) {
      a[n] = dot(moves[n], d) / dot(moves[n], turns[n]);
      for (std::size_t i = 0; i < 4; ++i) d[i] -= a[n] * turns[n][i];
    }
    for (auto& v : d) v *= scale;
    for (std::size_t n = 0; n < moves.size(); ++n) {
      const double b = dot(turns[n], d) / dot(moves[n], turns[n]);
      for (std::size_t i = 0; i < 4; ++i) d[i] += (a[n] - b) * moves[n][i];
    }
    double size = 0;
    for (const double v : g) size += std::abs(v);
    before = x, g_before = g;
    for (std::size_t i = 0; i < 4; ++i) x[i] -= 0.5 * (t == 0 ? std::min(1.0, 1 / size) : 1.0) * d[i];
    const std::tuple by{vec(from_span(g))};
    std::tuple<vec> at{p}, there{q};
    std::tie(at, state) = opt.update(at, by, state);
    std::tie(there, other) = step(there, by, other);
    p = std::get<0>(at), q = std::get<0>(there);
    check_close(p.to_vector(), x, 1e-6);
    check_close(q.to_vector(), x, 1e-6);
  }
  CHECK(step.specialisations() == 1);
}

TEST_CASE("schedules against their formulas") {
  const double pi = std::acos(-1.0);
  const auto check = [](const optim::schedule& s, const std::function<double(double)>& f) {
    for (const int t : {0, 1, 2, 5, 9, 10, 11, 19, 20, 30, 99}) CHECK(s(t) == doctest::Approx(f(t)).epsilon(2e-6));
    const auto traced = compile([&](const tensor<std::int64_t, 0>& t) { return s(t); }, {.backend = "reference"});
    CHECK(traced(tensor<std::int64_t, 0>(7)).item() == doctest::Approx(f(7)).epsilon(2e-6));
  };
  const auto part = [](double t, double n) { return std::min(std::max(t / n, 0.0), 1.0); };
  const auto half = [=](double t, double n) { return 0.5 + 0.5 * std::cos(pi * part(t, n)); };
  check(0.25, [](double) { return 0.25; });
  check(optim::constant(0.5), [](double) { return 0.5; });
  check(optim::linear(1, 0.2, 20), [=](double t) { return 1 - 0.8 * part(t, 20); });
  check(optim::exponential(2, 0.5, 10), [](double t) { return 2 * std::pow(0.5, t / 10); });
  check(optim::staircase(2, 0.5, 10), [](double t) { return 2 * std::pow(0.5, std::floor(t / 10)); });
  check(optim::cosine(2, 20, 0.5), [=](double t) { return 0.5 + 1.5 * half(t, 20); });
  check(optim::warmup_cosine(2, 10, 30, 0.1),
        [=](double t) { return t < 10 ? 2 * (t + 1) / 11 : 0.1 + 1.9 * half(t - 10, 20); });
  check(optim::one_cycle(2, 100), [=](double t) {  // OneCycleLR's
    const double low = 2.0 / 25, end = low / 1e4;
    return t <= 29 ? 2 + (low - 2) * half(t, 29) : end + (2 - end) * half(t - 29, 70);
  });
  check([](const tensor<float, 0>& t) { return 1.f / (t + 1.f); }, [](double t) { return 1 / (t + 1); });
  check_close(run(optim::sgd({.rate = optim::linear(0.4, 0, 4)})),
              expected([](double& p, double g, auto&, int t, std::size_t) { p -= 0.1 * (4 - t) * g; }), 2e-6);
}

TEST_CASE("chains clip gradients") {
  const auto clipped = [](double largest) {
    return [=](double& p, double g, auto&, int t, std::size_t) {
      double square = 0;
      for (std::size_t j = 0; j < count; ++j) square += gradient(j, t) * gradient(j, t);
      p -= 0.1 * g * std::min(1.0, largest / (std::sqrt(square) + 1e-6));
    };
  };
  for (const double largest : {0.5, 1e3})
    check_close(run(optim::chain(optim::clip_by_global_norm(largest), optim::sgd({.rate = 0.1}))),
                expected(clipped(largest)), 2e-6);
  check_close(run(optim::chain(optim::clip_by_value(0.4), optim::clip_by_global_norm(1e6), optim::sgd({.rate = 0.1}))),
              expected([](double& p, double g, auto&, int, std::size_t) { p -= 0.1 * std::clamp(g, -0.4, 0.4); }),
              2e-6);
}

TEST_CASE("clipping by a norm makes a step of that norm, whatever the gradients' magnitude") {
  struct pair_of_leaves {
    tensor<float, 1> a;
    tensor<bf16, 2> b;
  };
  const optim::clip_by_global_norm clip(2);
  const auto both = [&](const pair_of_leaves& g) { return clip.change(g, g, clip.init(g)).first; };
  const auto interpreted = compile(both, {.backend = "reference"});
  const auto compiled = compile(both);
  // Their norm is beyond f32 at the last of these sizes.
  for (const float size : {1e-30f, 1.f, 1e20f, 3e25f, 1e38f}) {
    const pair_of_leaves g{tensor<float, 1>{2.5f, -3.f, 1.f, 3.25f} * size,
                           cast<bf16>(tensor<float, 2>{{2.f, -3.f}, {0.f, 1.f}} * size)};
    doubles raw;
    for (const float v : g.a.to_vector()) raw.push_back(v);
    for (const auto v : g.b.to_vector()) raw.push_back(static_cast<double>(static_cast<float>(v)));
    double square = 0;
    for (const double v : raw) square += v * v;
    for (double& v : raw) v *= std::min(1., 2 / (std::sqrt(square) + 1e-6)) / std::min(1.f, size);
    for (const auto& y : {both(g), interpreted(g), compiled(g)}) {
      doubles got;
      for (const float v : y.a.to_vector()) got.push_back(v / std::min(1.f, size));
      for (const auto v : y.b.to_vector())
        got.push_back(static_cast<double>(static_cast<float>(v)) / std::min(1.f, size));
      check_close(doubles(got.begin(), got.begin() + 4), doubles(raw.begin(), raw.begin() + 4), 2e-6);
      check_close(got, raw, 0x1p-8);
    }
  }
  CHECK(tree_norm(std::tuple{tensor<float, 1>{3e25f}, tensor<float, 1>{4e25f}}).item() == doctest::Approx(5e25f));
  CHECK(tree_norm(std::tuple{tensor<float, 1>{3e-25f}, tensor<float, 1>{4e-25f}}).item() * 1e25f ==
        doctest::Approx(5.f));
  CHECK(tree_norm(std::tuple{tensor<float, 1>{3e-25f, 4e-25f}}).item() * 1e25f == doctest::Approx(5.f));
}

TEST_CASE("averages, gradients of several batches, scaled losses") {
  const optim::ema average(0.9);
  const leaves p = made(begun());
  const leaves mean = average.update(average.init(p), gradients(0));
  doubles want = begun();
  for (std::size_t i = 0; i < count; ++i) want[i] = 0.9 * want[i] + 0.1 * gradient(i, 0);
  check_close(numbers(mean), want, 1e-6);

  doubles sum(count), x = begun();
  for (int t = 0; t < 6; ++t)
    for (std::size_t i = 0; i < count; ++i) {
      sum[i] += gradient(i, t) / 3;
      if (t % 3 == 2) x[i] -= 0.1 * sum[i], sum[i] = 0;
    }
  check_close(run(optim::accumulate(3, optim::sgd({.rate = 0.1})), 6), x, 2e-6);

  const optim::scale_loss scaled(optim::sgd({.rate = 0.1}), {.first = 8, .interval = 2});
  auto state = scaled.init(p);
  CHECK(scaled.scaled(tensor<f16, 0>(f16(2.f)), state).item() == 16);
  leaves q = p;
  const auto by = [](int t, float factor) {
    return tree_map(
        [&](const auto& g) {
          if constexpr (std::is_same_v<typename std::remove_cvref_t<decltype(g)>::value_type, std::int64_t>) return g;
          else return g * factor;
        },
        gradients(t));
  };
  std::tie(q, state) = scaled.update(q, by(0, 8), state);
  CHECK(state.scale.item() == 8);
  std::tie(q, state) = scaled.update(q, by(1, 8), state);
  CHECK(state.scale.item() == 16);
  const doubles before = numbers(q);
  check_close(before, expected([](double& p, double g, auto&, int, std::size_t) { p -= 0.1 * g; }, 2), 2e-6);
  std::tie(q, state) = scaled.update(q, by(2, INFINITY), state);
  CHECK(numbers(q) == before);
  CHECK(state.scale.item() == 8);
  CHECK(state.inner.step.item() == 2);
}

TEST_CASE("a step has the kernels of one that is written by hand") {
  const auto library = compile(steps::by_library), hand = compile(steps::by_hand);
  const steps::net p = steps::first();
  const auto [l, q, next] = library(p, steps::begun(p), steps::some());
  const auto [l2, q2, next2] = hand(p, steps::begun(p), steps::some());
  for (std::size_t i = 0; i < 3; ++i)
    check_close(q.layers[i].weight.to_vector(), q2.layers[i].weight.to_vector(), 2e-5);
  CHECK(library.report().kernels == hand.report().kernels);
  CHECK(next.step.item() == 1);
}

TEST_CASE("what optimizers refuse") {
  says([] { optim::sgd({.momentum = 1}); }, "[optim::sgd] the momentum must be in [0, 1); it is 1");
  says([] { optim::adamw({.beta2 = -1}); }, "[optim::adamw] beta2 must be in [0, 1); it is -1");
  says([] { optim::adam({.weight_decay = -1}); }, "[optim::adam] the weight decay must be 0 or more; it is -1");
  says([] { optim::clip_by_global_norm(NAN); }, "[optim::clip_by_global_norm] the norm must be 0 or more");
  says([] { optim::accumulate(0, optim::sgd()); },
       "[optim::accumulate] the number of batches must be 1 or more; it is 0");
  says([] { optim::warmup_cosine(1, 5, 5); }, "[optim::warmup_cosine] needs 0 <= warmup < steps; they are 5 and 5");
  says([] { optim::linear(1, 0, 0); }, "[optim::linear] the number of steps must be 1 or more; it is 0");
  says([] { optim::lbfgs({.history = 0}); }, "[optim::lbfgs] the history must be 1 or more; it is 0");
  says(
      [] {
        const optim::adamw opt;
        const std::tuple p{zeros<float>(3)};
        opt.update(p, std::tuple{zeros<float>(4)}, opt.init(p));
      },
      "[optim::adamw] a leaf is (3,) in one tree and (4,) in another");
}
