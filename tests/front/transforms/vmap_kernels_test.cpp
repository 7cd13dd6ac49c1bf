// vmap: what it costs. The kernels of compiled vmap(grad(f)) are those of code that was batched by hand.
#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lane_loops.hpp"

using namespace lane_loops;

namespace {

/// A kernel's text without the lines of the user.
std::string placeless(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    if (text.compare(at, 6, "#line ") != 0) out.append(text, at, end - at);
    at = end;
  }
  return out;
}

template <class F>
std::vector<std::string> texts_of(const F& f) {
  const auto r = f.report();
  CHECK(r.backend == "cpu");
  std::vector<std::string> out;
  for (const auto& step : r.steps)
    out.push_back(step.source < 0 ? step.name : placeless(r.sources[static_cast<std::size_t>(step.source)]));
  std::sort(out.begin(), out.end());
  return out;
}

/// Both give the same, by the same kernels.
template <class F, class G, class... Args>
void check_kernels(const char* name, const F& lanes, const G& by_hand, const Args&... args) {
  CAPTURE(std::string(name));
  const auto a = compile(lanes);
  const auto b = compile(by_hand);
  check_same(a(args...), b(args...));
  const auto got = texts_of(a), want = texts_of(b);
  CHECK(got.size() == want.size());
  const bool equal = got == want;
  CHECK(equal);
  if (!equal) MESSAGE("vmap: ", a.report().graph, "\nby hand: ", b.report().graph);
}

struct mlp {
  matrix w1;
  vec b1;
  matrix w2;
  vec b2;
};

vec errors_of(const matrix& w, const matrix& x, const vec& y) { return sum(w * x, axis<1>) - y; }

}  // namespace

TEST_CASE("kernels of vmap(grad(f)): pointwise functions, rows and linear models") {
  const matrix w = numbers(1, 6, 5), x = numbers(2, 6, 5);
  const vec y = numbers(3, 6);
  check_kernels(
      "pointwise", [](const matrix& x) { return vmap(grad([](const vec& x) { return sum(tanh(x) * exp(x)); }))(x); },
      [](const matrix& x) { return grad([](const matrix& x) { return sum(tanh(x) * exp(x)); })(x); }, x);
  check_kernels(
      "regression",
      [](const matrix& w, const matrix& x, const vec& y) {
        return vmap(grad([](const vec& w, const vec& x, const real& y) {
          const real e = sum(w * x) - y;
          return e * e;
        }))(w, x, y);
      },
      [](const matrix& w, const matrix& x, const vec& y) {
        return grad([](const matrix& w, const matrix& x, const vec& y) {
          const vec e = errors_of(w, x, y);
          return sum(e * e);
        })(w, x, y);
      },
      w, x, y);
  check_kernels(
      "logistic regression, one model",
      [](const vec& w, const matrix& x, const vec& y) {
        return vmap(grad([](const vec& w, const vec& x, const real& y) { return softplus(-y * sum(w * x)); }),
                    in_axes<none, 0, 0>)(w, x, y);
      },
      [](const vec& w, const matrix& x, const vec& y) {
        return grad([](const matrix& w, const matrix& x, const vec& y) {
          return sum(softplus(-y * sum(w * x, axis<1>)));
        })(matrix(broadcast_to(w, {x.size(0), x.size(1)})), x, y);
      },
      vec(numbers(4, 5)), x, y);
  check_kernels(
      "differences",
      [](const matrix& x) {
        return vmap(grad([](const vec& x) {
          const vec d = slice<0>(x, 1) - slice<0>(x, 0, -1);
          return sum(d * d * d);
        }))(x);
      },
      [](const matrix& x) {
        return grad([](const matrix& x) {
          const matrix d = slice<1>(x, 1) - slice<1>(x, 0, -1);
          return sum(d * d * d);
        })(x);
      },
      x);
  check_kernels(
      "running sums",
      [](const matrix& x) {
        return vmap(grad([](const vec& x) {
          const vec c = cumsum<0>(x);
          return sum(c * c * c);
        }))(x);
      },
      [](const matrix& x) {
        return grad([](const matrix& x) {
          const matrix c = cumsum<1>(x);
          return sum(c * c * c);
        })(x);
      },
      x);
}

TEST_CASE("kernels of vmap(grad(f)): softmax, norms and attention") {
  const matrix x = numbers(1, 6, 5), t = numbers(2, 6, 5);
  const vec g = numbers(3, 5), b = numbers(4, 5);
  check_kernels(
      "softmax",
      [](const matrix& x, const matrix& t) {
        return vmap(grad([](const vec& x, const vec& t) { return sum(softmax(x) * t); }))(x, t);
      },
      [](const matrix& x, const matrix& t) {
        return grad([](const matrix& x, const matrix& t) { return sum(softmax(x, axis<1>) * t); })(x, t);
      },
      x, t);
  check_kernels(
      "layer_norm",
      [](const matrix& x, const vec& g, const vec& b, const matrix& t) {
        return vmap(
            grad([](const vec& x, const vec& g, const vec& b, const vec& t) { return sum(layer_norm(x, g, b) * t); }),
            in_axes<0, none, none, 0>)(x, g, b, t);
      },
      [](const matrix& x, const vec& g, const vec& b, const matrix& t) {
        return grad([](const matrix& x, const vec& g, const vec& b, const matrix& t) {
          return sum(layer_norm(x, g, b) * t);
        })(x, g, b, t);
      },
      x, g, b, t);
  check_kernels(
      "attention",
      [](const cube& q, const cube& k, const cube& v) {
        return vmap(grad([](const matrix& q, const matrix& k, const matrix& v) {
          return sum(exp(matmul(softmax(matmul(q, transpose(k)) * 0.5, axis<-1>), v)));
        }))(q, k, v);
      },
      [](const cube& q, const cube& k, const cube& v) {
        return grad([](const cube& q, const cube& k, const cube& v) {
          return sum(exp(matmul(softmax(matmul(q, transpose(k)) * 0.5, axis<-1>), v)));
        })(q, k, v);
      },
      cube(numbers(5, 4, 3, 8)), cube(numbers(6, 4, 6, 8)), cube(numbers(7, 4, 6, 8)));
}

TEST_CASE("kernels of vmap(grad(f)): products, tables and networks") {
  const matrix x = numbers(2, 6, 5);
  check_kernels(
      "quadratic forms",
      [](const matrix& x, const matrix& a) {
        return vmap(grad([](const vec& x, const matrix& a) { return sum(matmul(x, a) * x); }), in_axes<0, none>)(x, a);
      },
      [](const matrix& x, const matrix& a) {
        return grad([](const matrix& x, const matrix& a) { return sum(matmul(x, a) * x); })(x, a);
      },
      x, matrix(numbers(3, 5, 5)));
  check_kernels(
      "tables",
      [](const cube& t, const tensor<std::int64_t, 2>& i, const cube& u) {
        return vmap(grad([](const matrix& t, const ids& i, const matrix& u) { return sum(exp(take(t, i)) * u); }))(t, i,
                                                                                                                   u);
      },
      [](const cube& t, const tensor<std::int64_t, 2>& i, const cube& u) {
        return grad([](const cube& t, const tensor<std::int64_t, 2>& i, const cube& u) {
          const tensor<std::int64_t, 3> at = broadcast_to(expand_dims<2>(i), {i.size(0), i.size(1), t.size(2)});
          return sum(exp(take_along_axis(t, at, axis<1>)) * u);
        })(t, i, u);
      },
      cube(numbers(4, 4, 7, 3)), tensor<std::int64_t, 2>(randint<std::int64_t>(make_key(5), 0, 7, 4, 5)),
      cube(numbers(6, 4, 5, 3)));
  const mlp p{numbers(7, 5, 8), numbers(8, 8), numbers(9, 8, 2), numbers(10, 2)};
  const matrix y = numbers(11, 6, 2);
  check_kernels(
      "gradients of each sample",
      [](const mlp& p, const matrix& x, const matrix& y) {
        const auto g = vmap(grad([](const mlp& p, const vec& x, const vec& y) {
                              const vec e = matmul(tanh(matmul(x, p.w1) + p.b1), p.w2) + p.b2 - y;
                              return sum(e * e);
                            }),
                            in_axes<none, 0, 0>)(p, x, y);
        return std::tuple{g[&mlp::w1], g[&mlp::b1], g[&mlp::w2], g[&mlp::b2]};
      },
      [](const mlp& p, const matrix& x, const matrix& y) {
        const matrix h = tanh(matmul(x, p.w1) + p.b1);
        const matrix e = matmul(h, p.w2) + p.b2 - y;
        const matrix db2 = e + e, db1 = matmul(db2, transpose(p.w2)) * (1.0 - h * h);
        return std::tuple{cube(matmul(expand_dims<2>(x), expand_dims<1>(db1))), db1,
                          cube(matmul(expand_dims<2>(h), expand_dims<1>(db2))), db2};
      },
      p, x, y);
}
