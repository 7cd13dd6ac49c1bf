// custom_vjp, custom_jvp and remat: values, derivatives by the user's rules and what follows from them, fusion, memory.
#include <cmath>
#include <string>

#include "../../texts.hpp"
#include "derivatives.hpp"

using namespace derivatives;
using texts::contains;
using texts::error_of;

namespace rules {

struct point {
  vec x;
  tensor<std::int64_t, 1> place;
};

}  // namespace rules

namespace {

using rules::point;

/// log(1 + e^x), whose derivative is written without overflow; the factor tells whether the rule was used.
auto log1p_exp(double factor) {
  return custom_vjp([](const vec& x) { return vec(log(1.0 + exp(x))); },
                    [](const vec& x) {
                      return std::pair{vec(log(1.0 + exp(x))), x};
                    },
                    [factor](const vec& x, const vec& ct) { return vec(ct * factor / (1.0 + exp(-x))); });
}
auto tangent_log1p_exp(double factor) {
  return custom_jvp([](const vec& x) { return vec(log(1.0 + exp(x))); },
                    [factor](const vec& x, const vec& v) {
                      return std::pair{vec(log(1.0 + exp(x))), vec(v * factor / (1.0 + exp(-x)))};
                    });
}

doubles logistic(const vec& x, double factor) {
  doubles out;
  for (const double v : x.to_vector()) out.push_back(factor / (1 + std::exp(-v)));
  return out;
}

}  // namespace

TEST_CASE("a function with a rule computes what it does, and is differentiated as the rule says, both ways") {
  const vec x{-1, 0.5, 800};
  for (const auto& f : {log1p_exp(3)}) {
    for (const auto& y : everywhere(f, vec{-1, 0.5}))
      check_close(y.to_vector(), doubles{std::log1p(std::exp(-1)), std::log1p(std::exp(0.5))}, 1e-12);
    for (const auto& g : everywhere(grad([&](const vec& x) { return sum(f(x)); }), x))
      check_close(g.to_vector(), logistic(x, 3), 1e-12);
    for (const auto& [y, dy] : everywhere(jvp(f), x, ones<double>(3)))
      check_close(dy.to_vector(), logistic(x, 3), 1e-12);
  }
  for (const auto& f : {tangent_log1p_exp(3)}) {
    for (const auto& y : everywhere(f, vec{-1, 0.5}))
      check_close(y.to_vector(), doubles{std::log1p(std::exp(-1)), std::log1p(std::exp(0.5))}, 1e-12);
    for (const auto& g : everywhere(grad([&](const vec& x) { return sum(f(x)); }), x))
      check_close(g.to_vector(), logistic(x, 3), 1e-12);
    for (const auto& [y, dy] : everywhere(jvp(f), x, ones<double>(3)))
      check_close(dy.to_vector(), logistic(x, 3), 1e-12);
  }
  check_derivatives([f = log1p_exp(1)](const vec& x) { return vec(f(x * 2.0) * x); }, vec{-1, 0.3, 2});
  check_derivatives([f = tangent_log1p_exp(1)](const vec& x) { return vec(f(x * 2.0) * x); }, vec{-1, 0.3, 2});
  // In the body of a loop, in the part of a branch, in another function with a rule.
  check_derivatives(
      [f = log1p_exp(1)](const vec& x) {
        return scan(
            [&](const vec& c, const real& x) {
              const vec y = cond(
                  x > 0.0, [&](const vec& c) { return f(c); }, [](const vec& c) { return vec(-1.0 * c); }, c);
              return std::pair{vec(y * x), y};
            },
            vec{0.3, -0.2}, x);
      },
      vec{0.7, -0.3, 0.9});
  const auto inner = log1p_exp(1);
  const auto outer = custom_vjp([inner](const vec& x) { return vec(inner(x) * x); },
                                [inner](const vec& x) {
                                  return std::pair{vec(inner(x) * x), std::tuple{x, inner(x)}};
                                },
                                [inner](const auto& kept, const vec& ct) {
                                  const auto& [x, y] = kept;
                                  return vec(ct * y + vjp(inner)(x).second(vec(ct * x)));
                                });
  check_derivatives(outer, vec{-1, 0.3, 2});
}

TEST_CASE("rules of trees and of several arguments, with integers, flags and numbers") {
  const auto f = custom_vjp(
      [](const point& p, int n, const vec& w) {
        return std::pair{vec(take(p.x, p.place) * static_cast<double>(n)), real(sum(w * w))};
      },
      [](const point& p, int n, const vec& w) {
        return std::pair{std::pair{vec(take(p.x, p.place) * static_cast<double>(n)), real(sum(w * w))},
                         std::tuple{p, n, w}};
      },
      [](const auto& kept, const auto& ct) {
        const auto& [p, n, w] = kept;
        const vec x = scatter_add(zeros_like(p.x), p.place, ct.first * static_cast<double>(n));
        return std::tuple{point{x, p.place}, vec(2.0 * w * ct.second)};
      });
  const auto same = [](const point& p, int n, const vec& w) {
    return std::pair{vec(take(p.x, p.place) * static_cast<double>(n)), real(sum(w * w))};
  };
  const point p{vec{1, 2, 3}, tensor<std::int64_t, 1>{2, 0, 2}};
  const vec w{0.5, -1};
  const auto loss = [](const auto& f) {
    return [&f](const point& p, int n, const vec& w) {
      const auto y = f(p, n, w);
      return sum(y.first * y.first) * y.second;
    };
  };
  const auto want = grad<0, 2>(loss(same))(p, 3, w);
  for (const auto& got : everywhere(grad<0, 2>(loss(f)), p, 3, w)) {
    check_close(elements_of(got), elements_of(want), 1e-9);
    CHECK(std::get<0>(got).place.to_vector() == std::vector<std::int64_t>{0, 0, 0});
  }
  for (const auto& got : everywhere(grad<2>(loss(f)), p, 3, w))
    check_close(got.to_vector(), elements_of(std::get<1>(want)), 1e-9);
  const auto dp = random_like(p, 3);
  const vec dw{1, -2};
  const auto tangent = jvp<0, 2>(same)(p, 3, w, dp, dw).second;
  for (const auto& got : everywhere(jvp<0, 2>(f), p, 3, w, dp, dw))
    check_close(elements_of(got.second), elements_of(tangent), 1e-9);
  const auto g = custom_jvp(same, [](const point& p, int n, const vec& w, const point& dp, const vec& dw) {
    const double by = static_cast<double>(n);
    return std::pair{std::pair{vec(take(p.x, p.place) * by), real(sum(w * w))},
                     std::pair{vec(take(dp.x, p.place) * by), real(sum(2.0 * w * dw))}};
  });
  for (const auto& got : everywhere(grad<0, 2>(loss(g)), p, 3, w))
    check_close(elements_of(got), elements_of(want), 1e-9);
  for (const auto& got : everywhere(jvp<0, 2>(g), p, 3, w, dp, dw))
    check_close(elements_of(got.second), elements_of(tangent), 1e-9);
  // A number of a compiled function goes on being one.
  const auto scaled = custom_vjp([](const vec& x, double k) { return vec(x * k); },
                                 [](const vec& x, double k) {
                                   return std::pair{vec(x * k), std::tuple{x, k}};
                                 },
                                 [](const auto& kept, const vec& ct) { return vec(ct * std::get<1>(kept)); });
  const auto at = compile(grad([&](const vec& x, double k) { return sum(scaled(x, k)); }));
  CHECK(at(w, 3.0).to_vector() == doubles{3, 3});
  CHECK(at(w, 4.0).to_vector() == doubles{4, 4});
  const auto of_any = custom_vjp([](const vec& x, auto k) { return vec(x * k); },
                                 [](const vec& x, auto k) {
                                   return std::pair{vec(x * k), std::tuple{x, k}};
                                 },
                                 [](const auto& kept, const vec& ct) { return vec(ct * std::get<1>(kept)); });
  const auto open = compile(grad([&](const vec& x, auto k) { return sum(of_any(x, k) * k); }));
  CHECK(open(w, 3.0).to_vector() == doubles{9, 9});
  CHECK(open(w, 4.0).to_vector() == doubles{16, 16});
  const auto again = compile(grad(
      [&](const vec& x, auto k) { return sum(remat([](const vec& x, auto k) { return vec(x * x * k); })(x, k)); }));
  CHECK(again(w, 3.0).to_vector() == doubles{3, -6});
  CHECK(again(w, 4.0).to_vector() == doubles{4, -8});
}

TEST_CASE("kernels fuse through functions with rules") {
  const auto kernels = [](const auto& f) {
    const auto c = compile(f);
    c(vec(arange<double>(100)));
    return c.report().kernels;
  };
  const auto f = log1p_exp(1);
  const auto plain = [](const vec& x) { return vec(log(1.0 + exp(x))); };
  CHECK(kernels([&](const vec& x) { return vec(sin(f(x * 2.0)) * x); }) == 1);
  const auto loss = [](const auto& f) { return [&f](const vec& x) { return sum(sin(f(x * 2.0)) * x); }; };
  CHECK(kernels(grad(loss(f))) == kernels(grad(loss(plain))));
  CHECK(kernels(remat(plain)) == 1);
}

TEST_CASE("a rule that is not linear, and what a function captures, have no derivative") {
  const vec x{1, -2};
  const auto clipped = custom_vjp([](const vec& x) { return vec(x * 1.0); },
                                  [](const vec& x) {
                                    return std::pair{vec(x * 1.0), x};
                                  },
                                  [](const vec&, const vec& ct) { return vec(clamp(ct, -0.5, 0.5)); });
  for (const auto& g : everywhere(grad([&](const vec& x) { return sum(clipped(x) * x); }), x))
    check_close(g.to_vector(), doubles{1.5, -2.5}, 1e-12);
  const auto text = error_of([&] { jvp(clipped)(x, x); });
  CHECK(contains(text,
                 "[custom_vjp] its backward is not linear in the cotangents, so that no derivative in forward mode "
                 "follows from it"));
  CHECK(contains(text, "custom_test.cpp:"));
  const auto bent = custom_jvp([](const vec& x) { return vec(x * 1.0); },
                               [](const vec& x, const vec& v) {
                                 return std::pair{x, vec(abs(v))};
                               });
  CHECK(contains(error_of([&] { grad([&](const vec& x) { return sum(bent(x)); })(x); }),
                 "[custom_jvp] its rule is not linear in the tangents"));
  CHECK(contains(error_of([&] {
                   grad([&](const vec& x) {
                     const auto f = custom_vjp([x](const vec& y) { return vec(x * y); },
                                               [x](const vec& y) {
                                                 return std::pair{vec(x * y), y};
                                               },
                                               [](const vec&, const vec& ct) { return ct; });
                     return sum(f(vec(x + 1.0)));
                   })(x);
                 }),
                 "[custom_vjp] a derivative is asked for by a tensor that the function captures"));
  const auto outside = custom_vjp([](const vec& y) { return y; },
                                  [](const vec& y) {
                                    return std::pair{y, y};
                                  },
                                  [x](const vec&, const vec& ct) { return vec(ct * x); });
  CHECK(contains(error_of([&] { grad([&](const vec& x) { return sum(outside(x)); })(x); }),
                 "uses a tensor from outside"));
  const auto short_one = custom_vjp([](const vec& y) { return y; },
                                    [](const vec& y) {
                                      return std::pair{y, y};
                                    },
                                    [](const vec&, const vec& ct) { return slice<0>(ct, 1); });
  CHECK(contains(
      error_of([&] { grad([&](const vec& x) { return sum(short_one(x)); })(x); }),
      "[custom_vjp] the cotangent that backward returns has a tensor of shape (1,) where there is one of shape (2,)"));
}

TEST_CASE("a rule that shows no derivative is not linear either; a backward does nothing on the host") {
  const vec x{1, -2};
  const auto with = [](auto backward) {
    return custom_vjp([](const vec& x) { return vec(x * 3.0); },
                      [](const vec& x) {
                        return std::pair{vec(x * 3.0), x};
                      },
                      backward);
  };
  for (const auto& text :
       {error_of([&] { jvp(with([](const vec&, const vec& ct) { return vec(sign(ct)); }))(x, x); }),
        error_of([&] { jvp(with([](const vec& x, const vec& ct) { return vec(where(ct > 0.0, x, -x)); }))(x, x); }),
        error_of([&] { jvp(with([](const vec&, const vec& ct) { return stop_gradient(ct); }))(x, x); })})
    CHECK(contains(text, "[custom_vjp] its backward is not linear in the cotangents"));
  const auto told = with([](const vec&, const vec& ct) {
    host_call([](const vec&) {}, ct);
    return vec(ct * 3.0);
  });
  CHECK(contains(error_of([&] { grad([&](const vec& x) { return sum(told(x)); })(x); }),
                 "[custom_vjp] its backward calls a function of the host"));
  const auto rule = custom_jvp([](const vec& x) { return vec(x * 3.0); },
                               [](const vec& x, const vec& v) {
                                 host_call([](const vec&) {}, v);
                                 return std::pair{vec(x * 3.0), vec(v * 3.0)};
                               });
  CHECK(contains(error_of([&] { jvp(rule)(x, x); }), "[custom_jvp] its rule calls a function of the host"));
}

TEST_CASE("a rule that is linear and a term more is refused; a linear one may be a loop over states") {
  const vec x{1, -2};
  const auto with = [](auto rule) { return custom_jvp([](const vec& x) { return vec(x * x); }, rule); };
  const auto refused = [&](auto rule) {
    return contains(error_of([&] { grad([&](const vec& x) { return sum(with(rule)(x)); })(x); }),
                    "[custom_jvp] its rule is not linear in the tangents");
  };
  CHECK(refused([](const vec& x, const vec& v) { return std::pair{vec(x * x), vec(2.0 * x * v + 1.0)}; }));
  CHECK(refused([](const vec& x, const vec&) { return std::pair{vec(x * x), x}; }));
  CHECK(refused([](const vec& x, const vec& v) { return std::pair{vec(x * x), vec(where(x > 0.0, v, x))}; }));
  CHECK(refused([](const vec& x, const vec& v) {
    return std::pair{vec(x * x), vec(concat<0>(slice<0>(v, 0, 1), slice<0>(x, 1, 2)))};
  }));
  CHECK_FALSE(refused([](const vec& x, const vec& v) {
    return std::pair{vec(x * x), vec(where(x > 0.0, 2.0 * x * v, zeros_like(x) - 2.0 * (-x) * v))};
  }));
  // x^8 by squaring three times, beside its tangent.
  const auto eighth = custom_jvp([](const vec& x) { return vec(pow(x, 8.0)); },
                                 [](const vec& x, const vec& v) {
                                   const auto [y, t] = fori_loop(
                                       0, 3,
                                       [](const auto&, const std::pair<vec, vec>& c) {
                                         return std::pair{vec(c.first * c.first), vec(2.0 * c.first * c.second)};
                                       },
                                       std::pair{x, v});
                                   return std::pair{y, t};
                                 });
  for (const auto& g : everywhere(grad([&](const vec& x) { return sum(eighth(x)); }), x))
    check_close(g.to_vector(), doubles{8, -1024}, 1e-12);
}

TEST_CASE("a memory budget leaves alone what lies beside the way to the loss") {
  static int calls;
  const auto loss = [](const std::vector<matrix>& ws, const matrix& x) {
    matrix h = x;
    for (const auto& w : ws) {
      h = tanh(matmul(h, w));
      const matrix u = cos(sin(exp(h)));
      cond(
          sum(x) > 0.0,
          [](const matrix& h) {
            host_call([](const matrix&) { ++calls; }, h);
            return matrix(h * 2.0);
          },
          [](const matrix& h) { return h; }, u);
      h = h + tanh(u) * exp(u);
    }
    return sum(h);
  };
  const std::vector<matrix> ws(4, full<double>(0.1, 3, 3));
  const matrix x = full<double>(0.5, 2, 3);
  calls = 0;
  const auto plain = compile(grad(loss))(ws, x);
  CHECK(calls == 4);
  const auto thrifty = compile(grad(loss), {.memory_budget = 0})(ws, x);
  CHECK(calls == 8);
  for (std::size_t k = 0; k < ws.size(); ++k) check_close(thrifty[k].to_vector(), plain[k].to_vector(), 1e-12);
}

TEST_CASE("what a function with a rule does on the host, it does once") {
  static int calls;
  calls = 0;
  const auto f = custom_vjp(
      [](const vec& x) {
        host_call([](const vec&) { ++calls; }, x);
        return vec(x * x);
      },
      [](const vec& x) {
        return std::pair{vec(x * x), x};
      },
      [](const vec& x, const vec& ct) { return vec(2.0 * x * ct); });
  const auto g = compile(grad([&](const vec& x) { return sum(f(x)); }));
  CHECK(g(vec{1, 2}).to_vector() == doubles{2, 4});
  CHECK(calls == 1);
  calls = 0;
  const auto r = remat([](const vec& x) {
    host_call([](const vec&) { ++calls; }, x);
    return vec(sin(x) * x);
  });
  const auto h = compile(value_and_grad([&](const vec& x) { return sum(r(x)); }));
  h(vec{1, 2});
  CHECK(calls == 1);
}

TEST_CASE("a custom op has a tangent: its own, or what follows from its vjp") {
  const auto shape = [](const auto& x) { return result_of<double, 1>{x}; };
  const auto host = [](elements<const double, 1> x, elements<double, 1> y) {
    for (std::int64_t i = 0; i < y.size(); ++i) y[i] = x[i] * x[i] * x[i];
  };
  const auto pull = [](const vec& x, const vec&, const vec& ct) { return vec(3.0 * x * x * ct); };
  const auto push = [](const vec& x, const vec&, const vec& v) { return vec(3.0 * x * x * v); };
  const vec x{1, -2, 0.5};
  const auto both = custom_op<"cube">(host, none, shape, pull, push);
  const auto backward = custom_op<"cube">(host, none, shape, pull);
  const auto forward = custom_op<"cube">(host, none, shape, none, push);
  check_derivatives([&](const vec& x) { return vec(both(x * 2.0) * x); }, x);
  check_derivatives([&](const vec& x) { return vec(backward(x * 2.0) * x); }, x);
  check_derivatives([&](const vec& x) { return vec(forward(x * 2.0) * x); }, x);
  const auto plain = custom_op<"plain">(host, none, shape);
  CHECK(contains(error_of([&] { jvp([&](const vec& x) { return plain(x); })(x, x); }),
                 "[plain] the custom op has no derivative"));
}

namespace {

template <class Wrap>
auto layers(const Wrap& wrap) {
  return [wrap](const std::vector<std::pair<matrix, matrix>>& p, const matrix& x) {
    const auto layer = wrap([](const matrix& h, const matrix& a, const matrix& b) {
      const matrix m = matmul(h, a);
      return matrix(h + matmul(matrix(sin(m) * tanh(m) + exp(-1.0 * m * m)), b) * 0.1);
    });
    matrix h = x;
    for (const auto& [a, b] : p) h = layer(h, a, b);
    return mean(h * h);
  };
}

}  // namespace

TEST_CASE("remat: 24 residual layers keep their inputs alone, and gradients are equal") {
  constexpr int depth = 24;
  std::vector<std::pair<matrix, matrix>> p;
  for (int i = 0; i < depth; ++i)
    p.push_back({normal<double>(make_key(std::uint64_t(2 * i)), 8, 64) * 0.3,
                 normal<double>(make_key(std::uint64_t(2 * i + 1)), 64, 8) * 0.3});
  const matrix x = normal<double>(make_key(99), 128, 8);
  const auto plain = compile(grad(layers([](auto f) { return f; })));
  const auto small = compile(grad(layers([](auto f) { return remat(f); })));
  const auto middle = compile(grad(layers([](auto f) { return remat(f, save_products); })));
  const auto want = elements_of(plain(p, x));
  check_close(elements_of(small(p, x)), want, 1e-12);
  check_close(elements_of(middle(p, x)), want, 1e-12);
  const auto bytes = [](const auto& f) { return static_cast<double>(f.report().scratch_bytes); };
  MESSAGE("scratch bytes: ", bytes(plain), ", products kept ", bytes(middle), ", remat ", bytes(small));
  CHECK(bytes(small) <= 0.5 * bytes(plain));
  CHECK(bytes(middle) < bytes(plain));
  CHECK(bytes(small) < bytes(middle));
  // The same for a whole function, by what its layers cost.
  const auto loss = layers([](auto f) { return f; });
  double before = bytes(plain);
  for (const double budget : {1.0, 0.5, 0.0}) {
    const auto within = compile(grad(loss), {.memory_budget = budget});
    check_close(elements_of(within(p, x)), want, 1e-12);
    MESSAGE("scratch bytes within ", budget, ": ", bytes(within));
    CHECK(bytes(within) <= before);
    before = bytes(within);
  }
  CHECK(before <= 0.5 * bytes(plain));
  check_close(elements_of(compile(grad(loss), {.backend = "reference", .memory_budget = 0})(p, x)), want, 1e-12);
  CHECK(contains(error_of([&] { compile(grad(loss), {.memory_budget = 1.5}); }), "options.memory_budget is 1.5"));
  check_close(elements_of(compile(grad(layers([](auto f) { return remat(f); })), {.backend = "reference"})(p, x)), want,
              1e-12);
  const std::vector few(p.begin(), p.begin() + 2);
  check_derivatives([&](const matrix& x) { return real(layers([](auto f) { return remat(f); })(few, x)); },
                    matrix(slice<0>(x, 0, 2)));
  check_derivatives(
      [&](const matrix& x) { return real(layers([](auto f) { return remat(f, save_products); })(few, x)); },
      matrix(slice<0>(x, 0, 2)));
}

TEST_CASE("a memory budget holds for loops, branches, dropout, second derivatives and what does not vary") {
  const auto layer = [](const matrix& h, const matrix& w, std::uint64_t i) {
    const matrix m = tanh(matmul(h, w)) * where(uniform<double>(make_key(i), h.size(0), w.size(1)) < 0.8, 1.25, 0.0);
    const matrix n = cond(
        sum(m) > 0.0, [](const matrix& m) { return matrix(m * m); }, [](const matrix& m) { return matrix(sin(m)); }, m);
    const matrix k = scan(
                         [](const real& c, const vec& r) {
                           return std::pair{real(c + sum(r) * 0.01), vec(r * c)};
                         },
                         real(1.0), n)
                         .second;
    return matrix(h + matmul(matrix(exp(k) * n - k), transpose(w)) * 0.1);
  };
  const auto loss = [&](const std::vector<matrix>& ws, const matrix& x) {
    matrix h = x;
    for (std::size_t i = 0; i < ws.size(); ++i) h = layer(h, ws[i], i);
    return mean(h * h);
  };
  std::vector<matrix> ws;
  for (std::uint64_t i = 0; i < 4; ++i) ws.push_back(normal<double>(make_key(i), 4, 32) * 0.3);
  const matrix x = normal<double>(make_key(9), 16, 4);
  const auto v = random_like(ws, 3);
  for (const char* backend : {"cpu", "reference"}) {
    const auto want = elements_of(compile(grad<0, 1>(loss), {.backend = backend})(ws, x));
    const auto curve = elements_of(compile(hvp(loss), {.backend = backend})(ws, x, v));
    const auto small = compile(grad<0, 1>(loss), {.backend = backend, .memory_budget = 0});
    check_close(elements_of(small(ws, x)), want, 1e-9);
    check_close(elements_of(compile(hvp(loss), {.backend = backend, .memory_budget = 0})(ws, x, v)), curve, 1e-9);
  }
  const auto second = [&](const std::vector<matrix>& ws) {
    return grad([&](const std::vector<matrix>& ws) {
      const auto g = grad(loss)(ws, x);
      real s(0.0);
      for (std::size_t i = 0; i < g.size(); ++i) s = s + sum(g[i] * v[i]);
      return s;
    })(ws);
  };
  check_close(elements_of(compile(second, {.memory_budget = 0})(ws)), elements_of(compile(hvp(loss))(ws, x, v)), 1e-9);
}
