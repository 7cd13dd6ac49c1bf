// cond, scan, fori_loop and while_loop: traced and eager, values, gradients, what is captured, what is refused.
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../../close.hpp"
#include "../../texts.hpp"

using namespace sinter;
using texts::error_of;

namespace {

using scalar = tensor<double, 0>;
using vec = tensor<double, 1>;
using matrix = tensor<double, 2>;
using doubles = std::vector<double>;

struct cell {
  matrix w, u;
  vec b;
};

cell make_cell(std::int64_t n) {
  const auto wave = [](auto x, double by) { return sin(x * by) * 0.3; };
  const vec flat = cast<double>(arange<std::int64_t>(n * n));
  return {reshape(matrix(wave(reshape(flat, {n, n}), 1.3)), {n, n}), matrix(wave(reshape(flat, {n, n}), 0.7)),
          wave(cast<double>(arange<std::int64_t>(n)), 2.1)};
}

matrix inputs(std::int64_t steps, std::int64_t n) {
  return sin(reshape(cast<double>(arange<std::int64_t>(steps * n)), {steps, n}) * 0.37);
}

vec step_of(const cell& p, const vec& h, const vec& x) { return tanh(matmul(h, p.w) + matmul(x, p.u) + p.b); }

void check_close(const doubles& a, const doubles& b, double epsilon = 1e-9) { ::check_close(a, b, epsilon); }

}  // namespace

TEST_CASE("a recurrent network by scan equals the unrolled one: values and gradients") {
  const cell p = make_cell(4);
  const matrix xs = inputs(6, 4);
  const vec h = sin(cast<double>(arange<std::int64_t>(4)));
  const auto looped = [](const cell& p, const vec& h, const matrix& xs) {
    const auto [last, all] = scan(
        [&](const vec& h, const vec& x) {
          const vec next = step_of(p, h, x);
          return std::pair{next, next * x};
        },
        h, xs);
    return sum(last * last) + sum(all * 0.5);
  };
  const auto unrolled = [](const cell& p, vec h, const matrix& xs) {
    scalar total(0.0);
    for (int i = 0; i < 6; ++i) {
      const vec x = reshape(slice<0>(xs, i, i + 1), {4});
      h = step_of(p, h, x);
      total = total + sum(h * x) * 0.5;
    }
    return sum(h * h) + total;
  };
  const auto compiled_loop = compile(value_and_grad(looped));
  const auto compiled_unrolled = compile(value_and_grad(unrolled));
  const auto [a, da] = compiled_loop(p, h, xs);
  const auto [b, db] = compiled_unrolled(p, h, xs);
  CHECK(a.item() == doctest::Approx(b.item()).epsilon(1e-12));
  CHECK(scalar(looped(p, h, xs)).item() == doctest::Approx(b.item()).epsilon(1e-12));
  check_close(da.w.to_vector(), db.w.to_vector());
  check_close(da.u.to_vector(), db.u.to_vector());
  check_close(da.b.to_vector(), db.b.to_vector());
  const auto by_start = compile(grad<1>(looped));
  const auto by_start_unrolled = compile(grad<1>(unrolled));
  check_close(by_start(p, h, xs).to_vector(), by_start_unrolled(p, h, xs).to_vector());
  const auto by_inputs = compile(grad<2>(looped));
  const auto by_inputs_unrolled = compile(grad<2>(unrolled));
  check_close(by_inputs(p, h, xs).to_vector(), by_inputs_unrolled(p, h, xs).to_vector());
}

TEST_CASE("a thousand steps make the graph and the kernels of ten") {
  const auto f = compile(value_and_grad([](const cell& p, const vec& h, const matrix& xs) {
                           const auto [last, all] = scan(
                               [&](const vec& h, const vec& x) {
                                 const vec next = step_of(p, h, x);
                                 return std::pair{next, std::tuple<>{}};
                               },
                               h, xs);
                           return sum(last);
                         }),
                         {.dynamic = dynamic::no});
  const cell p = make_cell(4);
  const vec h = zeros<double>(4);
  f(p, h, inputs(10, 4));
  const auto ten = f.report();
  f(p, h, inputs(1000, 4));
  const auto thousand = f.report();
  CHECK(ten.nodes_traced == thousand.nodes_traced);
  CHECK(ten.nodes_rewritten == thousand.nodes_rewritten);
  CHECK(ten.kernels == thousand.kernels);
  CHECK(ten.kernels > 0);
  CHECK(thousand.backend == "cpu");
  CHECK(thousand.compiled <= 3);  // products over all steps, and what reads their extents
}

TEST_CASE("eager and compiled control agree; trees, numbers of steps, order of slices") {
  const auto f = [](const matrix& xs) {
    return scan(
        [](const std::tuple<vec, tensor<std::int64_t, 0>>& carry, const std::pair<vec, vec>& x) {
          const auto& [h, n] = carry;
          const vec next = h * 0.5 + x.first;
          return std::pair{std::tuple{next, tensor<std::int64_t, 0>(n + 1)},
                           std::tuple{vec(next + x.second), sum(next)}};
        },
        std::tuple{vec{1, 2, 3}, tensor<std::int64_t, 0>(0)}, std::pair{xs, matrix(xs * 2.0)});
  };
  const auto g = compile(f);
  for (std::int64_t steps : {5, 1, 0}) {
    const matrix xs = inputs(steps, 3);
    const auto [last, ys] = f(xs);
    const auto [last2, ys2] = g(xs);
    CHECK(std::get<1>(last).item() == steps);
    CHECK(std::get<1>(last2).item() == steps);
    check_close(std::get<0>(last).to_vector(), std::get<0>(last2).to_vector());
    CHECK(std::get<0>(ys).shape() == index_array<2>{steps, 3});
    CHECK(std::get<1>(ys2).shape() == index_array<1>{steps});
    check_close(std::get<0>(ys).to_vector(), std::get<0>(ys2).to_vector());
    check_close(std::get<1>(ys).to_vector(), std::get<1>(ys2).to_vector());
  }
}

TEST_CASE("fori_loop counts from lower to upper; while_loop stops by its test") {
  const auto powers = [](const vec& x) {
    return fori_loop(
        2, 6, [&](const tensor<std::int64_t, 0>& i, const vec& c) { return c * x + cast<double>(i); }, x);
  };
  const auto none = [](const vec& x) {
    return fori_loop(
        3, 1, [](auto, const vec& c) { return c * 2.0; }, x);
  };
  const auto collatz = [](const tensor<std::int64_t, 0>& n) {
    using pair = std::pair<tensor<std::int64_t, 0>, tensor<std::int64_t, 0>>;
    return while_loop([](const pair& c) { return c.first != 1; },
                      [](const pair& c) {
                        const auto& n = c.first;
                        return pair{where(n % 2 == 0, n / 2, n * 3 + 1), c.second + 1};
                      },
                      pair{n, tensor<std::int64_t, 0>(0)})
        .second;
  };
  const vec x{0.5, -1, 2};
  check_close(powers(x).to_vector(), compile(powers)(x).to_vector());
  double c = 0.5;
  for (int i = 2; i < 6; ++i) c = c * 0.5 + i;
  CHECK(powers(x)(0) == doctest::Approx(c));
  check_close(compile(none)(x).to_vector(), x.to_vector());
  // A body without a turn is not called, as elsewhere.
  const auto impossible = [](const vec& x) {
    return fori_loop(
        3, 3, [](auto, const vec& c) { return vec(concat(c, c)); }, x);
  };
  check_close(impossible(x).to_vector(), x.to_vector());
  check_close(compile(impossible)(x).to_vector(), x.to_vector());
  const auto steps = compile(collatz);
  CHECK(steps(tensor<std::int64_t, 0>(27)).item() == 111);
  CHECK(steps(tensor<std::int64_t, 0>(1)).item() == 0);
  CHECK(collatz(tensor<std::int64_t, 0>(27)).item() == 111);
}

TEST_CASE("cond runs one branch; both are differentiable, also inside scan") {
  const auto f = [](const scalar& p, const vec& x, const vec& y) {
    return sum(cond(
        p > 0.0, [&](const vec& x) { return vec(x * y); }, [](const vec& x) { return vec(x * x * x); }, x));
  };
  const auto g = compile(value_and_grad<1>(f));
  const auto by_y = compile(value_and_grad<2>(f));
  const vec x{1, 2, 3}, y{4, 5, 6};
  const auto [a, da] = g(scalar(1.0), x, y);
  CHECK(a.item() == 32);
  check_close(da.to_vector(), {4, 5, 6});
  const auto [b, db] = g(scalar(-1.0), x, y);
  CHECK(b.item() == 36);
  check_close(db.to_vector(), {3, 12, 27});
  check_close(by_y(scalar(1.0), x, y).second.to_vector(), {1, 2, 3});
  check_close(by_y(scalar(-1.0), x, y).second.to_vector(), {0, 0, 0});
  CHECK(scalar(f(scalar(-1.0), x, y)).item() == 36);

  const auto clipped = [](const vec& xs, const scalar& start) {
    return scan(
               [](const scalar& c, const scalar& x) {
                 const scalar next = cond(
                     x > 0.0, [&] { return scalar(c * x); }, [&] { return scalar(c + x); });
                 return std::pair{next, next};
               },
               start, xs)
        .second;
  };
  const vec xs{2, -1, 3, 0.5, -2};
  check_close(compile(clipped)(xs, scalar(3.0)).to_vector(), {6, 5, 15, 7.5, 5.5});
  check_close(clipped(xs, scalar(3.0)).to_vector(), {6, 5, 15, 7.5, 5.5});
  const auto slope = compile(grad<1>([&](const vec& xs, const scalar& start) { return sum(clipped(xs, start)); }));
  CHECK(slope(xs, scalar(3.0)).item() == doctest::Approx(2 + 2 + 6 + 3 + 3));
}

TEST_CASE("second derivatives go through loops") {
  const auto f = [](const vec& x) {
    return sum(fori_loop(
        0, 3, [](auto, const vec& c) { return sin(c) * c; }, x));
  };
  const auto unrolled = [](vec x) {
    for (int i = 0; i < 3; ++i) x = sin(x) * x;
    return sum(x);
  };
  const auto curvature = [](auto f) {
    return grad([f](const vec& x) {
      const vec g = grad(f)(x);
      return sum(g * g);
    });
  };
  const vec x{0.3, 1.1, 2.0};
  check_close(compile(curvature(f))(x).to_vector(), compile(curvature(unrolled))(x).to_vector(), 1e-8);
}

TEST_CASE("loops nest, and read what is around them at every depth") {
  const matrix weights = inputs(3, 3);  // concrete: captured
  const auto f = [&](const matrix& xs, const vec& scale) {
    return scan(
        [&](const vec& h, const vec& x) {
          const vec inner = fori_loop(
              0, 3, [&](const auto& i, const vec& c) { return tanh(matmul(c, weights)) * scale + x * cast<double>(i); },
              h);
          return std::pair{inner, sum(inner)};
        },
        scale, xs);
  };
  const matrix xs = inputs(4, 3);
  const vec scale{0.5, 1, 1.5};
  const auto [a, ys] = f(xs, scale);
  const auto [b, zs] = compile(f)(xs, scale);
  check_close(a.to_vector(), b.to_vector());
  check_close(ys.to_vector(), zs.to_vector());
  const auto g = [&](const vec& scale) { return sum(f(xs, scale).second); };
  const vec slope = compile(grad(g))(scale);
  for (int k = 0; k < 3; ++k) {
    vec up = vec(scale * 1.0), down = vec(scale * 1.0);
    up(k) += 1e-6;
    down(k) -= 1e-6;
    CHECK(slope(k) == doctest::Approx((scalar(g(up)).item() - scalar(g(down)).item()) / 2e-6).epsilon(1e-6));
  }
}

TEST_CASE("views, repeated operands and passed-through carries") {
  const auto f = [](const matrix& m, const vec& x) {
    const auto [last, ys] = scan(
        [&](const std::pair<vec, vec>& c, const vec& r) {
          return std::pair{std::pair{vec(c.second + r), c.first}, c.first};
        },
        std::pair{x, x}, transpose(m));
    return std::tuple{last, ys, vec(x + 1.0)};
  };
  const matrix m = inputs(3, 5);
  const vec x{1, 2, 3};
  const auto [a, b, c] = f(m, x);
  const auto g = compile(f);
  const auto [d, e, h] = g(m, x);
  check_close(a.first.to_vector(), d.first.to_vector());
  check_close(a.second.to_vector(), d.second.to_vector());
  check_close(b.to_vector(), e.to_vector());
  check_close(c.to_vector(), h.to_vector());
  const auto [i, j, k] = g(matrix(transpose(inputs(5, 3))), x);  // other strides: another specialisation
  check_close(i.first.to_vector(), std::get<0>(f(matrix(transpose(inputs(5, 3))), x)).first.to_vector());
}

TEST_CASE("what is stacked beside numbers has the same ones at each step") {
  int place = 0, more = 0;
  const auto f = [&](const matrix& xs) {
    return scan(
        [&](const vec& c, const vec& r) {
          place += more;
          return std::pair{vec(c + r), std::pair{vec(c * 2.0), place}};
        },
        vec{1, 2, 3}, xs);
  };
  const auto [last, ys] = f(inputs(4, 3));
  CHECK(ys.second == 0);
  more = 1;
  CHECK(error_of([&] {
          f(inputs(4, 3));
        }).find("[scan] a number, flag or text beside the tensors that f returns for stacking differs") == 0);
}

TEST_CASE("the reference backend runs the same graphs") {
  const auto f = [](const vec& x, const matrix& xs) {
    const auto [h, ys] = scan([](const vec& h, const vec& r) { return std::pair{vec(h * 0.5 + r), sum(h)}; }, x, xs);
    const vec w = while_loop([](const vec& v) { return sum(v * v) < 100.0; }, [](const vec& v) { return v * 1.7; }, h);
    return std::tuple{w, ys};
  };
  const vec x{1, 2, 3};
  const auto [a, b] = f(x, inputs(4, 3));
  for (const char* backend : {"reference", "aot_reference"}) {
    const auto [c, d] = compile(f, {.backend = backend})(x, inputs(4, 3));
    check_close(a.to_vector(), c.to_vector());
    check_close(b.to_vector(), d.to_vector());
  }
}

TEST_CASE("what does not fit is refused with both shapes and the user's line") {
  const vec x{1, 2, 3};
  const auto grows = compile([](const vec& x) {
    return fori_loop(
        0, 3, [](auto, const vec& c) { return concat(c, c); }, x);
  });
  const std::string carry = error_of([&] { grows(x); });
  CHECK(carry.find("[fori_loop] the carry is (3,) at the start and (6,) after a step") == 0);
  CHECK(carry.find("control_test.cpp:") != std::string::npos);
  const auto uneven = compile([](const scalar& p, const vec& x) {
    return cond(
        p > 0.0, [&] { return vec(x * 2.0); }, [&] { return concat(x, x); });
  });
  const std::string branches = error_of([&] { uneven(scalar(1.0), x); });
  CHECK(branches.find("[cond] one branch returns (3,), the other (6,)") == 0);
  CHECK(branches.find("control_test.cpp:") != std::string::npos);
  const auto lengths = error_of([&] {
    scan(
        [](const vec& c, const std::pair<vec, vec>& r) {
          return std::pair{vec(c + r.first), c};
        },
        x, std::pair{inputs(2, 3), inputs(4, 3)});
  });
  CHECK(lengths.find("[scan] the first axes of xs differ: 2 and 4") == 0);
  const auto sums = [](const vec& c, const std::vector<scalar>& r) {
    return std::pair{r.empty() ? c : vec(c + r[0]), c};
  };
  const std::vector<vec> none;
  CHECK(error_of([&] { scan(sums, x, none); }).find("[scan] xs has no tensor") == 0);
  CHECK(error_of([&] {
          compile([&](const vec& x) { return scan(sums, x, none).first; })(x);
        }).find("[scan] xs has no") == 0);
  const auto endless = compile(grad([](const vec& x) {
    return sum(while_loop([](const vec& v) { return sum(v) < 10.0; }, [](const vec& v) { return v * 2.0; }, x));
  }));
  CHECK(error_of([&] { endless(x); }).find("fori_loop") != std::string::npos);
}

TEST_CASE("bodies read floating arguments at each call, keep sizes open, and read no values") {
  const auto f = [](const vec& x, auto rate) {
    return fori_loop(
        0, 3, [&](auto, const vec& c) { return vec(c * rate + x); }, x);
  };
  const auto g = compile(f, {.dynamic = dynamic::yes});
  for (double rate : {0.5, 0.25, 2.0}) check_close(g(vec{1, 2}, rate).to_vector(), f(vec{1, 2}, rate).to_vector());
  CHECK(g.specialisations() == 1);
  check_close(g(vec{1, 2, 3, 4}, 0.5).to_vector(), f(vec{1, 2, 3, 4}, 0.5).to_vector());
  CHECK(g.specialisations() == 1);
  const auto reads = compile([](const vec& x) {
    return fori_loop(
        0, 3, [](auto, const vec& c) { return vec(c * sum(c).item()); }, x);
  });
  CHECK(error_of([&] { reads(vec{1, 2}); }).find("[item]") == 0);
  const auto names = [](int line, auto&& call) {
    const std::string text = error_of(call);
    CHECK_MESSAGE(text.find("[if]") == 0, text);
    CHECK_MESSAGE(text.find("control_test.cpp:" + std::to_string(line) + ")") != std::string::npos, text);
  };
  const auto decides = [](const vec& v) { return sum(v) > 1.0 ? vec(v + 1.0) : v; };
  const int line = __LINE__ - 1;
  const auto kept = [](const vec& v) { return v; };
  const vec x{1, 2};
  names(line, [&] { compile([&](const vec& v) { return cond(sum(v) > 0.0, decides, kept, v); })(x); });
  names(line, [&] { trace(decides)(x); });
  const auto turn = [&](auto, const vec& v) { return decides(v); };
  names(line, [&] { compile([&](const vec& v) { return fori_loop(0, 3, turn, v); })(x); });
}

namespace {

struct configured {
  vec x;
  int heads = 2;
  bool on = true;
};

}  // namespace

TEST_CASE("numbers of structs go through loops and branches as they are, and none changes them") {
  const auto f = [](const configured& c) {
    const auto more = [](const configured& p) { return configured{vec(p.x * double(p.heads)), p.heads, p.on}; };
    const auto turn = [&](auto, const configured& p) { return more(p); };
    configured y = fori_loop(0, 2, turn, c);
    y = cond(
        sum(y.x) > 0.0, more, [](const configured& p) { return p; }, y);
    y = switch_case(tensor<int, 0>(1), std::tuple{more, more}, y);
    y = while_loop([](const configured& p) { return sum(p.x) < 1000.0; }, more, y);
    return scan(
               [&](const configured& p, const scalar& x) {
                 return std::pair{configured{vec(p.x + x), p.heads, p.on}, x};
               },
               y, vec{1, 2})
        .first;
  };
  const configured want = f({vec{1, 2}, 3, false});
  CHECK(want.x.to_vector() == doubles{2187.0 / 3 + 3, 2 * 2187.0 / 3 + 3});
  const auto g = compile(f, {.backend = "reference"});
  const configured got = g(configured{vec{1, 2}, 3, false});
  CHECK(got.x.to_vector() == want.x.to_vector());
  CHECK(got.heads == 3);
  CHECK(!got.on);
  const auto changed = [](auto, const configured& p) { return configured{p.x, p.heads + 1, p.on}; };
  const auto loop = [&](const configured& p) { return fori_loop(0, 2, changed, p).x; };
  const std::string of_step = "[fori_loop] a step changes a number, flag or text in a struct of the carry";
  CHECK(error_of([&] { loop({vec{1}}); }).find(of_step) == 0);
  CHECK(error_of([&] { compile(loop)(configured{vec{1}}); }).find(of_step) == 0);
  const auto branches = [&](const configured& p) {
    return cond(
               sum(p.x) > 0.0, [](const configured& p) { return p; },
               [](const configured& p) {
                 return configured{p.x, 7, p.on};
               },
               p)
        .x;
  };
  CHECK(error_of([&] {
          compile(branches)(configured{vec{1}});
        }).find("[cond] one branch returns another number, flag or text in a struct than the other") == 0);
}
