// vjp and linearize: derivatives as values that outlive the call, are compiled by themselves, and are used in traces.
#include <memory>
#include <optional>
#include <string>

#include "../../texts.hpp"
#include "derivatives.hpp"

using namespace derivatives;
using texts::contains;
using texts::error_of;

namespace pullbacks {

struct net {
  matrix w;
  std::vector<vec> b;
  tensor<int, 1> steps;
};

}  // namespace pullbacks

namespace {

using pullbacks::net;

net make_net() {
  return {normal<double>(make_key(1), 3, 4),
          {normal<double>(make_key(2), 4), normal<double>(make_key(3), 4)},
          tensor<int, 1>{7}};
}

auto outputs(const net& p, const vec& x) {
  const vec h = tanh(matmul(x, p.w) + p.b[0]);
  return std::tuple{vec(h * p.b[1]), argmax(h), real(sum(h * h))};
}

}  // namespace

TEST_CASE("a pullback outlives the call, takes any cotangent, and is a function to compile") {
  const net p = make_net();
  const vec x{0.3, -0.8, 1.2};
  const auto made = [&] {
    const net gone = tree_map([](const auto& t) { return t * decltype(t.item())(1); }, p);
    return vjp(outputs)(gone, x);
  };
  const auto [value, back] = made();
  check_close(elements_of(value), elements_of(outputs(p, x)), 1e-12);
  CHECK(std::get<1>(value).item() == std::get<1>(outputs(p, x)).item());
  const auto compiled = compile(back);
  const auto reference = compile(back, {.backend = "reference"});
  const auto inside =
      compile([back = back](const auto& ct) { return back(tree_map([](const auto& c) { return c + c; }, ct)); });
  for (const int seed : {1, 2}) {
    const auto ct = random_like(value, seed);
    const auto weighed = [&](const net& p) {
      const auto y = outputs(p, x);
      return real(sum(std::get<0>(y) * std::get<0>(ct)) + std::get<2>(y) * std::get<2>(ct));
    };
    const auto want = elements_of(grad(weighed)(p));
    const net pulled = back(ct);
    CHECK(pulled.steps.to_vector() == std::vector<int>{0});
    check_close(elements_of(pulled), want, 1e-9);
    check_close(elements_of(compiled(ct)), want, 1e-9);
    check_close(elements_of(reference(ct)), want, 1e-9);
    auto doubled = want;
    for (double& d : doubled) d *= 2;
    check_close(elements_of(inside(ct)), doubled, 1e-9);
  }
  CHECK(compiled.specialisations() == 1);
}

TEST_CASE("what is changed after the call does not change the derivative") {
  vec x{1, 2, 3};
  const auto [y, back] = vjp([](const vec& x) { return vec(x * x * x); })(x);
  const auto [z, along] = linearize([](const vec& x) { return vec(x * x); })(x);
  x(1) = 100;
  CHECK(back(ones<double>(3)).to_vector() == doubles{3, 12, 27});
  CHECK(along(ones<double>(3)).to_vector() == doubles{2, 4, 6});
}

TEST_CASE("several arguments, numbers, functions that are linear, constant or read values") {
  const auto f = [](const vec& a, int n, const vec& b) { return vec(a * a * b * static_cast<double>(n)); };
  const vec a{1, 2}, b{3, -4}, ct{0.5, 2};
  const auto [y, back] = vjp<2, 0>(f)(a, 3, b);
  const auto [db, da] = back(ct);
  check_close(db.to_vector(), vec(a * a * ct * 3.0).to_vector(), 1e-12);
  check_close(da.to_vector(), vec(a * b * ct * 6.0).to_vector(), 1e-12);
  const auto along = linearize<2, 0>(f)(a, 3, b).second;
  check_close(along(b, a).to_vector(), vec(a * a * b * 3.0 + a * a * b * 6.0).to_vector(), 1e-12);
  const auto [s, slope] = vjp([](auto x) { return x * x; })(3.0);
  CHECK(slope(1).item() == 6);
  CHECK(slope(2.5).item() == 15);
  const auto still = vjp([&](const vec&) { return vec(b + 0.0); })(a).second;
  CHECK(still(ct).to_vector() == doubles{0, 0});
  const auto twice = vjp([](const vec& x) { return vec(x + x); })(a).second;
  CHECK(twice(ct).to_vector() == doubles{1, 4});
  const auto reads = vjp([](const vec& x) { return vec(x * x * (sum(x).item() > 0 ? 2.0 : 3.0)); })(a).second;
  CHECK(reads(ct).to_vector() == doubles{2, 16});
}

TEST_CASE("in a trace: several seeds, in a loop, in the branch of another, after a value was read") {
  const vec x{0.5, -1.5, 2};
  const auto f = [](const vec& x) { return vec(x * sin(x)); };
  const auto slope = [](double x) { return std::sin(x) + x * std::cos(x); };
  const auto all = [&](const vec& x) {
    const auto [y, back] = vjp(f)(x);
    const matrix rows = scan(
                            [back = back](const real& c, const vec& ct) {
                              return std::pair{c, back(ct)};
                            },
                            real(0.0), eye<double>(3))
                            .second;
    return std::tuple{y, rows, back(y)};
  };
  for (const auto& [y, rows, last] : everywhere(all, x)) {
    doubles want(9), at_y;
    for (std::size_t i = 0; i < 3; ++i) {
      want[4 * i] = slope(x(static_cast<std::int64_t>(i)));
      at_y.push_back(want[4 * i] * y(static_cast<std::int64_t>(i)));
    }
    check_close(rows.to_vector(), want, 1e-12);
    check_close(last.to_vector(), at_y, 1e-12);
  }
  const auto reads = compile([&](const vec& x) {
    const auto [y, back] = vjp(f)(x);
    const auto along = linearize(f)(x).second;
    const double by = sum(y).item();  // the graph ends here
    return std::pair{vec(back(ones<double>(3)) * by), vec(along(ones<double>(3)) * by)};
  });
  for (int call = 0; call < 2; ++call) {
    const vec at = x * (1.0 + call);
    const auto [back, along] = reads(at);
    doubles want;
    for (std::int64_t i = 0; i < 3; ++i) want.push_back(slope(at(i)) * sum(f(at)).item());
    check_close(back.to_vector(), want, 1e-9);
    check_close(along.to_vector(), want, 1e-9);
  }
  // A derivative of what a pullback gives.
  const auto norm_of_slope = [&](const vec& x) { return sum(vjp(f)(x).second(x)); };
  for (const auto& g : everywhere(grad(norm_of_slope), x))
    check_close(g.to_vector(),
                differences(
                    [&](const vec& x) {
                      const auto v = vjp(f)(x).second(x);
                      return v;
                    },
                    x, ones<double>(3)),
                1e-5);
}

TEST_CASE("pullbacks through loops, branches and random numbers; open sizes") {
  const vec x{0.4, 0.9, -0.3};
  const auto f = [](const vec& x) {
    const vec noise = normal<double>(make_key(5), 3);
    return scan(
        [&](const vec& c, const real& x) {
          const vec next = cond(
              x > 0.0, [](const vec& c, const real& x) { return vec(c * x); },
              [](const vec& c, const real& x) { return vec(sin(c) + x); }, c, x);
          return std::pair{next, vec(next * noise)};
        },
        ones<double>(3), x);
  };
  check_derivatives(f, x);
  const auto open = compile(
      [](const vec& x, const vec& ct) { return vjp([](const vec& x) { return vec(x * cumsum(x)); })(x).second(ct); },
      {.dynamic = dynamic::yes});
  for (const std::int64_t n : {3, 6, 9}) {
    const vec at = arange<double>(n) + 1.0;
    check_close(open(at, at).to_vector(), grad([&](const vec& x) { return sum(x * cumsum(x) * at); })(at).to_vector(),
                1e-9);
  }
  CHECK(open.specialisations() <= 2);
}

TEST_CASE("cotangents that do not fit, and a pullback of a trace that has ended") {
  const vec x{1, 2, 3};
  const auto f = [](const vec& x) { return vec(x * x); };
  const auto back = vjp(f)(x).second;
  CHECK(contains(error_of([&] {
                   back(vec{1, 2});
                 }),
                 "[vjp] the cotangent has a tensor of shape (2,) where there is one of shape (3,)"));
  CHECK(contains(error_of([&] { linearize(f)(x).second(vec{1}); }),
                 "[linearize] the tangent has a tensor of shape (1,)"));
  using pullback = std::remove_const_t<decltype(back)>;
  std::optional<pullback> kept;
  compile([&](const vec& x) {
    kept.emplace(vjp(f)(x).second);
    return x;
  })(x);
  CHECK(contains(error_of([&] { (*kept)(x); }), "traced"));
}

TEST_CASE("jvp and vjp of a function that returns more than its value") {
  const auto f = [](const vec& x) { return std::pair{real(sum(x * x * x)), std::tuple{vec(2.0 * x), 7}}; };
  const vec x{1, 2}, v{1, -1};
  const auto check = [&](const auto& y, const auto& dy, const auto& g, const vec& twice) {
    CHECK(y.item() == 9);
    CHECK(dy.item() == -9);  // 3 x² v
    CHECK(g.to_vector() == std::vector<double>{6, 24});
    CHECK(twice.to_vector() == std::vector<double>{2, 4});
  };
  const auto [y, dy, more] = jvp(f, has_aux)(x, v);
  const auto [y2, back, more2] = vjp(f, has_aux)(x);
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(more)>, std::tuple<vec, int>>);
  check(y, dy, back(real(2.0)), std::get<0>(more));
  check(y2, dy, back(real(2.0)), std::get<0>(more2));
  CHECK(std::get<1>(more2) == 7);
  for (const char* backend : {"reference", "cpu"}) {
    const auto in_graph = compile(
        [&](const vec& x, const vec& v) {
          const auto [y, dy, more] = jvp(f, has_aux)(x, v);
          const auto [z, back, more2] = vjp(f, has_aux)(x);
          return std::tuple{y, dy, back(real(2.0)), vec(std::get<0>(more) + std::get<0>(more2))};
        },
        {.backend = backend});
    const auto [a, b, c, d] = in_graph(x, v);
    check(a, b, c, vec(d / 2.0));
  }
}
