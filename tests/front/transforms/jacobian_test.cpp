// jacobian, jacfwd, jacrev, hessian: against one derivative after the other.
#include <cmath>
#include <string>

#include "../../texts.hpp"
#include "derivatives.hpp"

using namespace derivatives;
using texts::contains;
using texts::error_of;

namespace {

/// Columns by differences, as (elements of f(x), elements of x).
template <class F, class X>
doubles columns(const F& f, const X& x) {
  const auto n = static_cast<std::size_t>(x.numel());
  doubles out;
  for (std::size_t k = 0; k < n; ++k) {
    X v = full_like(x, 0.0);
    v.data()[k] = 1;
    const auto column = differences(f, x, v);
    out.resize(column.size() * n);
    for (std::size_t i = 0; i < column.size(); ++i) out[i * n + k] = column[i];
  }
  return out;
}

template <class F, class X>
void check_jacobian(const F& f, const X& x) {
  const auto want = columns(f, x);
  for (const auto& j : everywhere(jacobian(f), x)) check_close(j.to_vector(), want, 1e-6);
  for (const auto& j : everywhere(jacfwd(f), x)) check_close(j.to_vector(), want, 1e-6);
  for (const auto& j : everywhere(jacrev(f), x)) check_close(j.to_vector(), want, 1e-6);
}

}  // namespace

TEST_CASE("all derivatives of a tensor by a tensor, of any ranks") {
  const vec x = normal<double>(make_key(3), 6) * 0.5;
  check_jacobian([](const vec& x) { return vec(x * x * sin(x)); }, x);
  check_jacobian(
      [](const vec& x) {
        return vec(cumsum(x) * softmax(x) + take(x, tensor<std::int64_t, 1>{5, 0, 0, 3, 1, 1}));
      },
      x);
  check_jacobian(
      [](const vec& x) {
        const matrix a = reshape(x, 2, 3);
        return matrix(matmul(a, transpose(a)) + 1.0);
      },
      x);
  check_jacobian([](const matrix& x) { return tensor<double, 3>(expand_dims<0>(exp(x)) * expand_dims<2>(x)); },
                 matrix(reshape(slice<0>(x, 0, 4), 2, 2)));
  check_jacobian([](const vec& x) { return sum(x * x * x); }, x);
  check_jacobian([](const real& x) { return vec(arange<double>(4) * x * x); }, real(1.5));
  check_jacobian([](const vec& x) { return vec(flip(x) * 2.0); }, x);
  const tensor<double, 3> j = jacobian([](const vec& x) { return matrix(expand_dims<0>(x) * expand_dims<1>(x)); })(x);
  CHECK(j.size(0) == 6);
  CHECK(j.size(2) == 6);
  const vec b{1, 2};
  for (const auto& none : everywhere(jacobian([&](const vec&) { return vec(b * 2.0); }), x))
    CHECK(none.to_vector() == doubles(12));
  for (const auto& none : everywhere(jacfwd([&](const vec&) { return vec(b * 2.0); }), x))
    CHECK(none.to_vector() == doubles(12));
}

TEST_CASE("jacobians through branches, loops and functions with rules") {
  const vec x{0.4, 0.9, -0.3};
  check_jacobian(
      [](const vec& x) {
        return cond(
            sum(x) > 0.0, [](const vec& x) { return vec(x * x); }, [](const vec& x) { return vec(sin(x)); }, x);
      },
      x);
  check_jacobian(
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
  const auto ruled = custom_vjp([](const vec& x) { return vec(x * x); },
                                [](const vec& x) {
                                  return std::pair{vec(x * x), x};
                                },
                                [](const vec& x, const vec& ct) { return vec(2.0 * x * ct); });
  check_jacobian([&](const vec& x) { return vec(ruled(x) * sum(x)); }, x);
  check_jacobian(remat([](const vec& x) { return vec(sin(x) * sum(exp(x))); }), x);
  const auto f = [](const vec& x) {
    return while_loop([](const vec& c) { return sum(c * c) < 50.0; },
                      [](const vec& c) { return vec(c * 2.0 + c * c * 0.1); }, x);
  };
  for (const auto& j : everywhere(jacfwd(f), x)) check_close(j.to_vector(), columns(f, x), 1e-6);
}

TEST_CASE("several arguments, numbers, jacobians of jacobians, open sizes") {
  const auto f = [](const vec& a, int n, const vec& b) { return vec(a * sum(b * b) * static_cast<double>(n)); };
  const vec a{1, 2}, b{3, -4, 1};
  const auto by_b = [&](const vec& b) { return f(a, 3, b); };
  for (const auto& j : everywhere(jacobian<2>(f), a, 3, b)) check_close(j.to_vector(), columns(by_b, b), 1e-6);
  CHECK(jacobian([](auto x) { return x * x; })(3.0).item() == 6);
  const auto slope = [&](const vec& b) { return jacobian(by_b)(b); };
  for (const auto& j : everywhere(jacobian(slope), b)) check_close(j.to_vector(), columns(slope, b), 1e-6);
  const auto open = compile(jacobian([](const vec& x) { return vec(x * sum(x)); }), {.dynamic = dynamic::yes});
  for (const std::int64_t n : {2, 3, 5}) {
    const vec x = arange<double>(n) + 1.0;
    check_close(open(x).to_vector(), columns([](const vec& x) { return vec(x * sum(x)); }, x), 1e-6);
  }
  CHECK(open.specialisations() <= 2);
}

TEST_CASE("hessians, of a loss with dropout too") {
  const vec x{0.2, -0.7, 1.1, 0.4};
  const auto f = [](const vec& x) { return sum(exp(x) * x) * sum(x * x); };
  for (const auto& h : everywhere(hessian(f), x)) {
    check_close(h.to_vector(), columns(grad(f), x), 1e-5);
    check_close(h.to_vector(), transpose(h).contiguous().to_vector(), 1e-9);
  }
  const auto loss = [](const matrix& w, const vec& x, const key& k) {
    const vec h = tanh(matmul(x, w));
    return sum(where(uniform<double>(k, h.size(0)) < 0.7, h / 0.7, 0.0) * h);
  };
  const matrix w = normal<double>(make_key(5), 4, 3);
  const auto of_w = [&](const matrix& w) { return loss(w, x, make_key(8)); };
  for (const auto& h : everywhere(hessian(of_w), w)) check_close(h.to_vector(), columns(grad(of_w), w), 1e-5);
  for (const auto& v : everywhere(hvp(of_w), w, w)) {
    const auto h = hessian(of_w)(w).to_vector();
    doubles want(12);
    for (std::size_t i = 0; i < 12; ++i)
      for (std::size_t k = 0; k < 12; ++k) want[i] += h[12 * i + k] * w.contiguous().data()[k];
    check_close(v.to_vector(), want, 1e-9);
  }
}
