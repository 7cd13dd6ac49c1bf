// jvp and hvp: against differences, of trees, through branches and loops, of and in other transforms.
#include <cmath>
#include <optional>
#include <string>

#include "../../texts.hpp"
#include "derivatives.hpp"

using namespace derivatives;
using texts::contains;
using texts::error_of;

namespace forward {

struct layer {
  matrix w;
  vec b;
  tensor<std::int64_t, 1> steps;
  int width = 2;
};

struct outcome {
  vec y;
  std::optional<real> norm;
  tensor<bool, 1> positive;
};

}  // namespace forward

namespace {

forward::layer make_layer() {
  return {normal<double>(make_key(1), 3, 2), normal<double>(make_key(2), 2), tensor<std::int64_t, 1>{3, 4}, 2};
}

}  // namespace

TEST_CASE("forward and reverse derivatives of every kind of op agree with differences") {
  const vec x = normal<double>(make_key(3), 6) * 0.5;
  check_derivatives([](const vec& x) { return vec(x * x * sin(x) + exp(x) / (1.0 + x * x)); }, x);
  check_derivatives([](const vec& x) { return vec(tanh(cumsum(x)) * softmax(x)); }, x);
  check_derivatives([](const vec& x) { return vec(take(x, tensor<std::int64_t, 1>{5, 0, 0, 3}) * max(x)); }, x);
  check_derivatives(
      [](const vec& x) {
        const matrix a = reshape(x, 2, 3);
        return std::pair{matrix(matmul(a, transpose(a))), vec(mean(exp(a), axis<0>))};
      },
      x);
  check_derivatives([](const vec& x) { return vec(concat(slice<0>(x, 1, 4), flip(x) * norm(x))); }, x);
}

TEST_CASE("arguments and results are trees; integers in them stand still") {
  const auto f = [](const forward::layer& l) {
    const vec y = tanh(sum(l.w, axis<0>) * static_cast<double>(l.width) + l.b);
    return forward::outcome{y, real(norm(y)), y > 0.0};
  };
  const forward::layer l = make_layer(), v = random_like(l, 5);
  check_derivatives(f, l);
  for (const auto& [value, tangent] : everywhere(jvp(f), l, v)) {
    CHECK(value.positive.to_vector() == f(l).positive.to_vector());
    CHECK(tangent.positive.to_vector() == std::vector<bool>{false, false});
    REQUIRE(tangent.norm.has_value());
  }
}

TEST_CASE("branches and loops, among them one that runs as long as it likes") {
  const vec x{0.4, 0.9, -0.3};
  check_derivatives(
      [](const vec& x) {
        return cond(
            sum(x) > 0.0, [](const vec& x) { return vec(x * x); }, [](const vec& x) { return vec(sin(x)); }, x);
      },
      x);
  check_derivatives(
      [](const vec& x) {
        return scan(
                   [](const real& c, const real& x) {
                     const real next = sin(c * 1.5 + x);
                     return std::pair{next, real(next * x)};
                   },
                   real(0.3), x)
            .second;
      },
      x);
  // Doubled until its sum is large: 2^n x, where n changes with x only by steps.
  const auto f = [](const vec& x) {
    return while_loop([](const vec& c) { return sum(c * c) < 50.0; },
                      [](const vec& c) { return vec(c * 2.0 + c * c * 0.1); }, x);
  };
  const vec v{1, -0.5, 2};
  for (const auto& [value, tangent] : everywhere(jvp(f), x, v)) {
    check_close(value.to_vector(), f(x).to_vector(), 1e-12);
    check_close(tangent.to_vector(), differences(f, x, v), 1e-6);
  }
  const auto twice = [&](const vec& x) { return jvp(f)(x, v).second; };
  for (const auto& [value, tangent] : everywhere(jvp(twice), x, v))
    check_close(tangent.to_vector(), differences(twice, x, v), 1e-5);
  CHECK(contains(error_of([&] { grad([&](const vec& x) { return sum(f(x)); })(x); }), "while_loop"));
}

TEST_CASE("several arguments: a tangent for each that varies, numbers among them") {
  const auto f = [](const vec& a, int n, const vec& b) { return vec(a * a * b * static_cast<double>(n)); };
  const vec a{1, 2}, b{3, -4}, da{0.5, 1}, db{-1, 2};
  const auto first = jvp(f)(a, 3, b, da).second;
  check_close(first.to_vector(), vec(2.0 * a * da * b * 3.0).to_vector(), 1e-12);
  const auto third = jvp<2>(f)(a, 3, b, db).second;
  check_close(third.to_vector(), vec(a * a * db * 3.0).to_vector(), 1e-12);
  for (const auto& [value, tangent] : everywhere(jvp<2, 0>(f), a, 3, b, db, da)) {
    check_close(value.to_vector(), f(a, 3, b).to_vector(), 1e-12);
    check_close(tangent.to_vector(), vec(first + third).to_vector(), 1e-12);
  }
  const auto [y, dy] = jvp([](auto x) { return x * x; })(3.0, 2.0);
  static_assert(std::is_same_v<std::remove_const_t<decltype(dy)>, real>);
  CHECK(y.item() == 9);
  CHECK(dy.item() == 12);
  CHECK(jvp([](auto x) { return x * x; })(3.f, 1).second.item() == 6);
}

TEST_CASE("forward: only the argument varies, and derivatives of derivatives are not mixed up") {
  const real one = 1.0, three = 3.0;
  CHECK(jvp([&](auto x) { return x * jvp([&](auto y) { return x + y; })(one, one).second; })(one, one).second.item() ==
        1);
  CHECK(jvp([&](auto x) { return x * jvp([&](auto y) { return x * y; })(x, one).second; })(three, one).second.item() ==
        6);
  CHECK(jvp([&](auto y) { return y * three; })(three, one).second.item() == 3);
  CHECK(jvp([&](auto) { return three * 2.0; })(three, one).second.item() == 0);
  CHECK(grad([&](auto x) { return x * jvp([&](auto y) { return x * y * y; })(x, one).second; })(three).item() ==
        4 * 9 + 2 * 9);
}

TEST_CASE("the product of second derivatives and a vector") {
  const vec x{0.2, -0.7, 1.1}, v{1, 2, -1};
  const auto f = [](const vec& x) { return sum(exp(x) * x) * sum(x * x); };
  for (const auto& product : everywhere(hvp(f), x, v))
    check_close(product.to_vector(), differences(grad(f), x, v), 1e-6);
  const auto l = make_layer(), u = random_like(l, 7);
  const auto loss = [](const forward::layer& l, const vec& t) {
    const vec e = tanh(sum(l.w, axis<0>) + l.b) - t;
    return sum(e * e * e);
  };
  const vec t{0.1, 0.4};
  const auto slope = [&](const forward::layer& l) { return grad(loss)(l, t); };
  for (const auto& product : everywhere(hvp(loss), l, t, u))
    check_close(elements_of(product), differences(slope, l, u), 1e-6);
}

TEST_CASE("sizes that stay open, dtypes, expressions, a value that is read inside") {
  const auto f = compile(jvp([](const tensor<float, 1>& x) { return x * x; }), {.dynamic = dynamic::yes});
  for (const std::int64_t n : {3, 5, 8}) {
    const auto x = arange<float>(n);
    CHECK(f(x, x + 1.f).second.to_vector() == tensor<float, 1>(2.f * x * (x + 1.f)).to_vector());
  }
  CHECK(f.specialisations() <= 2);
  const vec x{1, 2}, v{3, 4};
  const auto reads = [](const vec& x) { return vec(x * x * (sum(x).item() > 0 ? 2.0 : 3.0)); };
  check_close(jvp(reads)(x, v).second.to_vector(), doubles{12, 32}, 1e-12);
  check_close(compile(jvp(reads))(x, v).second.to_vector(), doubles{12, 32}, 1e-12);
  check_close(compile(jvp(reads))(-1.0 * x, v).second.to_vector(), doubles{-18, -48}, 1e-12);
}

TEST_CASE("tangents that do not fit") {
  const vec x{1, 2, 3};
  const auto f = [](const vec& x) { return vec(x * x); };
  const auto text = error_of([&] { jvp(f)(x, vec{1, 2}); });
  CHECK(contains(text, "[jvp] the tangent has a tensor of shape (2,) where there is one of shape (3,)"));
  CHECK(contains(text, "jvp_test.cpp:"));
  CHECK(contains(error_of([&] {
                   jvp([](const std::vector<vec>& x) { return x[0]; })(std::vector{x, x}, std::vector{x});
                 }),
                 "[jvp] "));
  // In a loop's body there is nothing to read.
  const auto body = [](const vec& c) { return vec(c * sum(c).item()); };
  CHECK(contains(error_of([&] {
                   jvp([&](const vec& x) {
                     return fori_loop(
                         0, 3, [&](auto, const vec& c) { return body(c); }, x);
                   })(x, x);
                 }),
                 "item"));
}
