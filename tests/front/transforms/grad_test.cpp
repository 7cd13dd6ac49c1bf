// grad and value_and_grad: against finite differences, through trees, nested, and with captured tensors constant.
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../../close.hpp"
#include "../../texts.hpp"

using namespace sinter;
using texts::contains;
using texts::error_of;

namespace gradients {

struct layer {
  tensor<double, 2> w;
  tensor<double, 1> b;
};

struct model {
  std::vector<layer> layers;
  std::optional<tensor<double, 1>> scale;
  tensor<std::int64_t, 1> steps;
  tensor<bool, 1> mask;
  int width = 2;
};

}  // namespace gradients

using namespace gradients;

namespace {

using real = tensor<double, 0>;
using vec = tensor<double, 1>;
using doubles = std::vector<double>;

/// Central differences of f along every element of one leaf.
doubles differences(auto&& f, auto leaf) {
  constexpr double step = 1e-6;
  doubles out;
  double* x = leaf.data();
  for (std::int64_t i = 0; i < leaf.numel(); ++i) {
    const double at = x[i];
    x[i] = at + step;
    const double above = f();
    x[i] = at - step;
    const double below = f();
    x[i] = at;
    out.push_back((above - below) / (2 * step));
  }
  return out;
}

void check_close(const doubles& a, const doubles& b) { ::check_close(a, b, 1e-6); }

model make_model() {
  model m;
  m.layers.push_back({tensor<double, 2>{{0.5, -0.3}, {0.2, 0.8}}, vec{0.1, -0.2}});
  m.layers.push_back({tensor<double, 2>{{-0.7, 0.4}, {0.9, 0.6}}, vec{0.3, 0.05}});
  m.scale = vec{1.5, -0.5};
  m.steps = tensor<std::int64_t, 1>{3, 4};
  m.mask = tensor<bool, 1>{true, false};
  return m;
}

auto energy(const model& m, const tensor<double, 2>& x) {
  tensor<double, 2> h = x;
  for (const auto& l : m.layers) h = tanh(matmul(h, l.w) + l.b) * static_cast<double>(m.width);
  if (m.scale) h = h * *m.scale;
  return mean(h * h + exp(h));
}

}  // namespace

TEST_CASE("derivatives of a function of one number, to the third order") {
  const auto f = [](auto x) { return x * x * x + sin(x); };
  const real x = 0.7;
  CHECK(grad(f)(x).item() == doctest::Approx(3 * 0.7 * 0.7 + std::cos(0.7)));
  CHECK(grad(grad(f))(x).item() == doctest::Approx(6 * 0.7 - std::sin(0.7)));
  CHECK(grad(grad(grad(f)))(x).item() == doctest::Approx(6 - std::cos(0.7)));
  const auto [value, slope] = value_and_grad(f)(x);
  CHECK(value.item() == doctest::Approx(0.7 * 0.7 * 0.7 + std::sin(0.7)));
  CHECK(slope.item() == doctest::Approx(3 * 0.7 * 0.7 + std::cos(0.7)));
  static_assert(std::is_same_v<decltype(grad(f)(x)), real>);
}

TEST_CASE("activations that are smooth at 0 have their derivatives there") {
  const auto check = [](const char* name, auto f, double first, double second) {
    INFO("function ", name);
    const auto slope = grad([&](real x) { return real(f(x)); });
    const auto bend = grad([&](real x) { return slope(x); });
    for (const double x : {0.0, -0.0}) {
      CHECK(slope(real(x)).item() == doctest::Approx(first));
      if (second == second) CHECK(bend(real(x)).item() == doctest::Approx(second));
    }
    const double h = 1e-6, difference = real(f(real(h))).item() - real(f(real(-h))).item();
    CHECK(difference / (2 * h) == doctest::Approx(first).epsilon(1e-5));
  };
  const double none = std::numeric_limits<double>::quiet_NaN();
  check(
      "softplus", [](real x) { return softplus(x); }, 0.5, 0.25);
  check(
      "mish", [](real x) { return mish(x); }, 0.6, 0.64);
  check(
      "elu", [](real x) { return elu(x); }, 1, none);
  check(
      "silu", [](real x) { return silu(x); }, 0.5, 0.5);
  check(
      "gelu", [](real x) { return gelu(x); }, 0.5, 0.7978845608028654);
  check(
      "gelu_tanh", [](real x) { return gelu_tanh(x); }, 0.5, 0.7978845608028654);
  check(
      "softsign", [](real x) { return softsign(x); }, 1, none);
  CHECK(grad([](real x) { return real(elu(x, 0.3)); })(real(0)).item() == doctest::Approx(0.3));
}

TEST_CASE("derivatives are finite where the function's are, however large or small the operand") {
  using single = tensor<float, 1>;
  const auto slopes = [](auto f, single x) { return grad([&](single v) { return sum(f(v)); })(x).to_vector(); };
  const single far{1e20f, -1e20f, 3e38f, -40.f, 40.f};
  CHECK(slopes([](auto x) { return gelu_tanh(x); }, far) == std::vector<float>{1, 0, 1, 0, 1});
  CHECK(slopes([](auto x) { return softplus(x); }, far) == std::vector<float>{1, 0, 1, std::exp(-40.f), 1});
  for (const float size : {1e-30f, 1e-25f, 1.f, 1e25f, 1e38f}) {
    const auto by_y = slopes([&](auto y) { return atan2(y, size); }, {size, 0.f, -size});
    const auto by_x = slopes([&](auto x) { return atan2(size, x); }, {size, 0.f, -size});
    const float half = 0.5f / size;
    for (const int i : {0, 2}) {
      CHECK(by_y[std::size_t(i)] == doctest::Approx(half));
      CHECK(by_x[std::size_t(i)] == doctest::Approx(-half));
    }
    CHECK(by_y[1] == doctest::Approx(2 * half));
    CHECK(by_x[1] == doctest::Approx(-2 * half));
  }
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(slopes([](auto y) { return atan2(y, 2.f); }, {inf, -inf}) == std::vector<float>{0, 0});
}

TEST_CASE("norms and deviations of 0 have the derivative 0") {
  const vec none = zeros<double>(3), level{2, 2, 2}, some{3, 0, -4};
  CHECK(grad([](vec x) { return norm(x); })(none).to_vector() == doubles{0, 0, 0});
  CHECK(grad([](vec x) { return sinter::std(x); })(level).to_vector() == doubles{0, 0, 0});
  check_close(grad([](vec x) { return norm(x); })(some).to_vector(), {0.6, 0, -0.8});
  const auto rows = compile(grad([](tensor<double, 2> x) { return sum(norm(x, axis<1>)); }));
  check_close(rows(tensor<double, 2>{{0, 0}, {3, 4}}).to_vector(), {0, 0, 0.6, 0.8});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isnan(compile([](vec x) { return norm(x); })(vec{1, nan}).item()));
}

TEST_CASE("elements that tie share what a maximum receives, more of them than f16 counts") {
  const auto x = full<f16>(f16(1.f), 70000);
  for (const bool compiled : {false, true}) {
    const auto top = grad([](tensor<f16, 1> x) { return max(x); });
    const auto low = grad([](tensor<f16, 1> x) { return min(x); });
    CHECK(double((compiled ? compile(top)(x) : top(x))(69999)) == double(f16(1.f / 70000)));
    CHECK(double((compiled ? compile(low)(x) : low(x))(0)) == double(f16(1.f / 70000)));
  }
}

template <class T>
void check_recomputed() {
  using matrix = tensor<T, 2>;
  const matrix x = normal<T>(make_key(7), 1000, 5);
  // Each row has one mark, counted by vectors, by a scan, and across a slice.
  const auto marks = [](const matrix& x) {
    const matrix t = sin(x);
    const matrix one = where(t == max(t, axis<1>, keepdims), T(1), T(0));
    return std::tuple{sum(one), sum(slice<1>(cumsum(one, axis<1>), -1)),
                      sum(slice<1>(one, 0, 2)) + sum(slice<1>(one, 2, 5))};
  };
  const auto [all, scanned, parts] = compile(marks)(x);
  CHECK(all.item() == 1000);
  CHECK(scanned.item() == 1000);
  CHECK(parts.item() == 1000);
  const auto against_reference = [&](auto loss, const matrix& at) {
    const auto g = grad(loss)(at);
    const auto want = compile(grad(loss), {.backend = "reference"})(at);
    check_close(g.to_vector(), want.to_vector(), sizeof(T) == 4 ? 1e-4 : 1e-12);
  };
  against_reference([](const matrix& x) { return max(sin(cumsum(x, axis<1>))); }, x);
  against_reference([](const matrix& x) { return sum(max(exp(cumsum(x, axis<1>)), axis<0>)); }, x);
  against_reference([](const matrix& x) { return norm<norm_max>(log(abs(cumprod(x, axis<1>)) + 1)); }, x);
  against_reference(
      [](const matrix& x) {
        const matrix t = tanh(x + min(x)), rolled = concat<1>(slice<1>(t, 1), slice<1>(t, 0, 1));
        return sum(max(rolled * t, axis<1>));
      },
      x);
}

TEST_CASE("an extreme is found where its operand is computed anew, by vectors and by scalars") {
  check_recomputed<float>();
  check_recomputed<double>();
}

TEST_CASE("the gradient of a tree is a tree of its type") {
  const model m = make_model();
  const tensor<double, 2> x{{0.3, -1.2}, {0.8, 0.1}, {-0.4, 0.9}};
  const auto loss = [&] { return real(energy(m, x)).item(); };
  const auto [value, g] = value_and_grad([](const model& m, const auto& x) { return energy(m, x); })(m, x);
  static_assert(std::is_same_v<decltype(g), const model>);
  CHECK(value.item() == doctest::Approx(loss()));
  REQUIRE(g.layers.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    check_close(g.layers[i].w.to_vector(), differences(loss, m.layers[i].w));
    check_close(g.layers[i].b.to_vector(), differences(loss, m.layers[i].b));
  }
  check_close(g.scale->to_vector(), differences(loss, *m.scale));
  CHECK(g.steps.to_vector() == std::vector<std::int64_t>{0, 0});
  CHECK(g.mask.to_vector() == std::vector<bool>{false, false});
  CHECK(g.width == 2);

  const auto by_x = grad<1>([](const model& m, const auto& x) { return energy(m, x); })(m, x);
  static_assert(std::is_same_v<decltype(by_x), const tensor<double, 2>>);
  check_close(by_x.to_vector(), differences(loss, x));
}

TEST_CASE("inside compile it is part of the graph, and gives the same") {
  const model m = make_model();
  const tensor<double, 2> x{{0.3, -1.2}};
  const auto loss = [](const model& m, const auto& x) { return energy(m, x); };
  const auto step = compile([&](model m, tensor<double, 2> x) {
    const auto [l, g] = value_and_grad(loss)(m, x);
    const auto update = []<class T>(const T& p, const T& d) {
      if constexpr (std::is_same_v<typename T::value_type, double>) return T(p - 0.1 * d);
      else return p;
    };
    return std::tuple{l, tree_map(update, m, g)};
  });
  const auto [l, next] = step(m, x);
  const auto g = grad(loss)(m, x);
  CHECK(l.item() == doctest::Approx(real(energy(m, x)).item()));
  check_close(next.layers[0].w.to_vector(), flatten(m.layers[0].w - 0.1 * g.layers[0].w).to_vector());
  CHECK(next.steps.to_vector() == std::vector<std::int64_t>{3, 4});
  CHECK(next.width == 2);
  CHECK(step.specialisations() == 1);
}

TEST_CASE("only the argument varies") {
  const real one = 1.0, three = 3.0;
  // d/dx of x · (d/dy of x + y): the inner derivative is 1, and x inside it is constant to y.
  CHECK(grad([&](auto x) { return x * grad([&](auto y) { return x + y; })(one); })(one).item() == 1);
  CHECK(grad([&](auto x) { return x * grad([&](auto y) { return x * y; })(x); })(three).item() == 6);
  // The tensor that is the argument is also captured.
  CHECK(grad([&](auto y) { return y * three; })(three).item() == 3);
  const auto same = compile([](real x) { return grad([&](auto y) { return x * y; })(x); });
  CHECK(same(three).item() == 3);
  CHECK(grad([&](auto x) { return x * stop_gradient(x); })(three).item() == 3);
  CHECK(grad([&](auto) { return three * 2.0; })(three).item() == 0);
}

TEST_CASE("more than a value may be returned") {
  const auto f = [](auto x, int k) {
    return std::pair{x * x * static_cast<double>(k), std::tuple{x + 1.0, k, std::vector{x}}};
  };
  const auto [result, g] = value_and_grad(f, has_aux)(real(3.0), 2);
  CHECK(result.first.item() == 18);
  CHECK(std::get<0>(result.second).item() == 4);
  CHECK(std::get<1>(result.second) == 2);
  CHECK(std::get<2>(result.second)[0].item() == 3);
  CHECK(g.item() == 12);
  const auto [slope, more] = grad(f, has_aux)(real(3.0), 2);
  CHECK(slope.item() == 12);
  CHECK(std::get<0>(more).item() == 4);
  const auto in_graph = compile([&](real x) { return value_and_grad(f, has_aux)(x, 5); });
  CHECK(in_graph(real(3.0)).second.item() == 30);
}

TEST_CASE("float32, a compiled function, a captured tensor, expressions as arguments") {
  const tensor<float, 1> w{1, 2}, x{3, 4};
  const auto f = compile([w](tensor<float, 1> x) { return sum(x * x * w); });
  CHECK(grad(f)(x).to_vector() == std::vector<float>{6, 16});
  CHECK(grad(f)(x + 1.f).to_vector() == std::vector<float>{8, 20});
  CHECK(f(x).item() == 41);
  CHECK(compile(grad(f))(x).to_vector() == std::vector<float>{6, 16});
}

TEST_CASE("the second derivative of a sum, along a direction") {
  const vec x{0.2, -0.7, 1.1}, v{1, 2, -1};
  const auto f = [](auto x) { return sum(exp(x) * x) * sum(x); };
  const auto slope = [&](auto x) { return sum(grad(f)(x) * v); };
  const auto along = [&] { return real(slope(x)).item(); };
  check_close(grad(slope)(x).to_vector(), differences(along, x));
}

TEST_CASE("powers have finite derivatives of every order where they have them") {
  const auto twice = [](auto f, const tensor<double, 1>& x) {
    return grad([=](const tensor<double, 1>& x) { return sum(grad(f)(x)); })(x).to_vector();
  };
  const tensor<double, 1> x{0, 1, -2};
  using list = std::vector<double>;
  // 1 + x + x^2 + x^3
  const auto apart = [](const tensor<double, 1>& x) {
    tensor<double, 0> s(0.0);
    for (int k = 0; k < 4; ++k) s = s + sum(pow(x, k));
    return s;
  };
  const auto at_once = [](const tensor<double, 1>& x) { return sum(pow(expand_dims<1>(x), arange<double>(4))); };
  CHECK(twice(apart, x) == list{2, 8, -10});
  CHECK(twice(at_once, x) == list{2, 8, -10});
  CHECK(twice([](const tensor<double, 1>& x) { return sum(pow(x, 0)); }, x) == list{0, 0, 0});
  const auto third = [](const tensor<double, 1>& x) {
    return sum(grad(
        [](const tensor<double, 1>& x) { return sum(grad([](const auto& x) { return sum(pow(x, 1.0)); })(x)); })(x));
  };
  CHECK(grad(third)(x).to_vector() == list{0, 0, 0});
  // By the exponent and the base, in both orders: a^(b-1) (1 + b log a), and no number where powers near b have none.
  const auto power = [](const tensor<double, 1>& a, const tensor<double, 1>& b) { return sum(pow(a, b)); };
  const tensor<double, 1> two{2, 2, 2};
  const auto mixed =
      grad<0>([=](const tensor<double, 1>& a, const tensor<double, 1>& b) { return sum(grad<1>(power)(a, b)); })(x, two)
          .to_vector();
  const auto turned =
      grad<1>([=](const tensor<double, 1>& a, const tensor<double, 1>& b) { return sum(grad<0>(power)(a, b)); })(x, two)
          .to_vector();
  for (const auto& m : {mixed, turned}) {
    CHECK(list(m.begin(), m.begin() + 2) == list{0, 1});
    CHECK(std::isnan(m[2]));
  }
}

TEST_CASE("gradients of several arguments are a tuple, in the order of their numbers") {
  const model m = make_model();
  const tensor<double, 2> x{{0.3, -1.2}, {0.8, 0.1}};
  const auto loss = [](const model& m, int n, const tensor<double, 2>& x) {
    return real(energy(m, x)) * static_cast<double>(n);
  };
  const auto by_m = grad(loss)(m, 2, x);
  const auto by_x = grad<2>(loss)(m, 2, x);
  const auto check = [&](const auto& f) {
    const auto [g, dx] = f(m, 2, x);
    static_assert(std::is_same_v<std::remove_cvref_t<decltype(g)>, model>);
    check_close(dx.to_vector(), by_x.to_vector());
    for (std::size_t i = 0; i < 2; ++i) check_close(g.layers[i].w.to_vector(), by_m.layers[i].w.to_vector());
    CHECK(g.steps.to_vector() == std::vector<std::int64_t>{0, 0});
  };
  check(grad<0, 2>(loss));
  check(compile(grad<0, 2>(loss)));
  check(compile(grad<0, 2>(loss), {.backend = "reference"}));
  const auto [value, both] = value_and_grad<2, 0>(loss)(m, 2, x);
  CHECK(value.item() == doctest::Approx(loss(m, 2, x).item()));
  check_close(std::get<0>(both).to_vector(), by_x.to_vector());
  const auto [slopes, more] = grad<0, 1>(
      [](auto a, auto b) {
        return std::pair{sum(a * b), a + b};
      },
      has_aux)(vec{1, 2}, vec{3, 4});
  CHECK(std::get<0>(slopes).to_vector() == doubles{3, 4});
  CHECK(std::get<1>(slopes).to_vector() == doubles{1, 2});
  CHECK(more.to_vector() == doubles{4, 6});
  // The same tensor twice: each place has its own derivative.
  const auto [left, right] = grad<0, 1>([](auto a, auto b) { return sum(a * a * b); })(vec{2, 3}, vec{2, 3});
  CHECK(left.to_vector() == doubles{8, 18});
  CHECK(right.to_vector() == doubles{4, 9});
}

TEST_CASE("a C++ number is differentiated by as a tensor of rank 0") {
  const auto f = [](const real& x) { return real(x * x * x); };
  static_assert(std::is_same_v<decltype(grad(f)(2.0)), real>);
  CHECK(grad(f)(2.0).item() == 12);
  CHECK(grad(grad(f))(2.0).item() == 12);
  CHECK(value_and_grad(f)(2.0).first.item() == 8);
  CHECK(grad([](auto x) { return x * x; })(1.5f).item() == 3);
  const auto compiled = compile([&](auto x) { return grad(f)(x); });  // an open number
  CHECK(compiled(2.0).item() == 12);
  CHECK(compiled(3.0).item() == 27);
  CHECK(compiled.specialisations() == 1);
  const auto [dx, dy] = grad<0, 1>([](auto x, auto y) { return x * x * sum(y); })(3.0, vec{1, 2});
  CHECK(dx.item() == 18);
  CHECK(dy.to_vector() == doubles{9, 9});
}

TEST_CASE("a C++ number has the dtype of the function's parameter") {
  using single = tensor<float, 0>;
  const auto cube = [](const single& x) { return single(x * x * x); };
  static_assert(std::is_same_v<decltype(grad(cube)(2.0)), single>);
  CHECK(grad(cube)(2.0).item() == 12);
  CHECK(grad(cube)(2).item() == 12);
  CHECK(grad(grad(cube))(2.0).item() == 12);
  CHECK(value_and_grad(cube)(2.0).first.item() == 8);
  CHECK(grad([](real x) { return real(x * x); })(1.5f).item() == 3);
  CHECK(grad([](const real& x) { return real(x * x); })(3).item() == 6);
  CHECK(static_cast<float>(grad([](const tensor<f16, 0>& x) { return tensor<f16, 0>(x * x); })(2.0).item()) == 4);
  CHECK(grad([](const auto& x) -> single { return x * x; })(2.f).item() == 4);
  const auto [y, dy] = jvp(cube)(2.0, 1);
  CHECK(y.item() == 8);
  CHECK(dy.item() == 12);
  CHECK(hvp(cube)(2.0, 1.0).item() == 12);
  const auto [z, back] = vjp(cube)(2.0);
  CHECK(back(1.0).item() == 12);
  CHECK(linearize(cube)(2.0).second(2.0).item() == 24);
  CHECK(jacobian(cube)(2.0).item() == 12);
  const auto two = [](const single& x, const tensor<float, 1>& w, const single& b, int n) {
    return single(sum(x * w) * b * float(n));
  };
  const auto [a, b] = grad<0, 2>(two)(2.0, tensor<float, 1>{1, 2}, 3, 2);
  CHECK(a.item() == 18);
  CHECK(b.item() == 12);
  const auto compiled = compile([&](auto x) { return grad(cube)(x); });
  CHECK(compiled(2.0).item() == 12);
  CHECK(compiled(3.0).item() == 27);
  CHECK(compiled.specialisations() == 1);
}

TEST_CASE("mistakes") {
  const auto message = [](auto&& f) {
    try {
      f();
    } catch (const user_error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  const auto text = message([] { grad([](auto x) { return sum(x); })(vec()); });
  CHECK(text.find("[grad] an argument holds a default-constructed tensor") == 0);
  CHECK(text.find("grad_test.cpp:") != std::string::npos);
}

TEST_CASE("a derivative outside compile refuses indices out of range, wherever they come from") {
  const auto x = ones<float>(5, 3);
  const tensor<std::int64_t, 1> bad{0, 7}, good{0, 4};
  const tensor<int, 2> along{{0, 1, 9}};
  const auto message = [&](const auto& f, const auto&... args) { return error_of([&] { (void)f(args...); }); };
  const auto rows = [](const auto& t, const auto& i) { return sum(exp(take(t, i))); };
  const auto text = message(grad(rows), x, bad);
  CHECK(contains(text, "[take] index 7 at position (1,) is out of range for an axis of extent 5"));
  CHECK(contains(text, "grad_test.cpp:"));
  CHECK(message(grad(rows), x, good).empty());
  CHECK(contains(message(value_and_grad([&](const auto& t) { return rows(t, bad); }), x), "[take] index 7"));
  CHECK(contains(message(value_and_grad(rows), x, bad + std::int64_t{3}), "index 10 at position (1,)"));
  CHECK(contains(message(grad([&](const auto& t) { return rows(t, argmax(t) - 20); }), x), "[take] index -"));
  CHECK(contains(message(grad([&](const auto& t) { return sum(grad(rows)(t, bad)); }), x), "[take] index 7"));
  CHECK(contains(message(grad([](const auto& t, const auto& i) { return sum(take_along_axis(t, i)); }), x, along),
                 "[take_along_axis] index 9 at position (0, 2)"));
  CHECK(contains(message(grad([](const auto& t, const auto& i) { return sum(scatter_add(t, i, t)); }), x,
                         tensor<int, 1>{0, 1, 2, 3, 5}),
                 "[scatter_add] index 5 at position (4,)"));
  CHECK(contains(message(grad([](const auto& t, const auto& i) { return cross_entropy(t, i); }), x,
                         tensor<std::int64_t, 1>{0, 1, 2, 3, 0}),
                 "[cross_entropy] index 3 at position (3,) is out of range for an axis of extent 3"));
  // One that reads values is answered apart.
  CHECK(contains(message(grad([&](const auto& t, const auto& i) { return rows(t, i) * t.to_vector()[0]; }), x, bad),
                 "[take] index 7"));
  // Compiled they are clamped, and so they are where they may not be reached.
  CHECK(message(compile(grad(rows)), x, bad).empty());
  const auto inside = [&](const auto& t) {
    const auto pick = [&](const auto& v) { return rows(v, bad); };
    return cond(
        sum(t) > 1e9f, pick, [](const auto& v) { return tensor<float, 0>(sum(v)); }, t);
  };
  CHECK(message(grad(inside), x).empty());
}
