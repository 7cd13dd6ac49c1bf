// Derivatives of linear algebra: forwards and backwards, once and twice, against differences; where values are equal.
#include <functional>
#include <string>

#include "matrices.hpp"

using namespace matrices;

namespace {

const options plain{.backend = "reference"};
using function = std::function<vec(const stacks&)>;

doubles differences(const function& f, const stacks& x, const stacks& v) {
  constexpr double step = 1e-6;
  return vec((f(x + step * v) - f(x - step * v)) / (2 * step)).to_vector();
}

double weighed(const doubles& a, const vec& by) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * by(static_cast<std::int64_t>(i));
  return sum;
}

/// f's derivatives at x: forward and reverse against differences, then the tangents of both, and the gradient of a tangent.
void check_derivatives(const std::string& name, const function& f, const stacks& x) {
  CAPTURE(name);
  const stacks v = random_stack(71, x.size(0), x.size(1), x.size(2)),
               u = random_stack(72, x.size(0), x.size(1), x.size(2));
  const vec ct = normal<double>(make_key(73), f(x).numel());
  const auto pushed = [&](const stacks& x) { return jvp(f)(x, v).second; };
  const auto pulled = [&](const stacks& x) { return vec(flatten(vjp(f)(x).second(ct))); };
  const auto of_pushed = [&](const stacks& x) {
    return vec(flatten(grad([&](const stacks& x) { return sum(pushed(x) * ct); })(x)));
  };
  const function push = compile(pushed, plain), pull = compile(pulled, plain);
  const doubles want = differences(f, x, v);
  check_close(push(x).to_vector(), want, 1e-6);
  CHECK(weighed(pull(x).to_vector(), flatten(v)) == doctest::Approx(weighed(want, ct)).epsilon(1e-6));
  check_close(compile([&](const stacks& x) { return jvp(pushed)(x, u).second; }, plain)(x).to_vector(),
              differences(push, x, u), 1e-5);
  check_close(compile([&](const stacks& x) { return jvp(pulled)(x, u).second; }, plain)(x).to_vector(),
              differences(pull, x, u), 1e-5);
  CHECK(weighed(compile(of_pushed, plain)(x).to_vector(), flatten(u)) ==
        doctest::Approx(weighed(differences(push, x, u), ct)).epsilon(1e-5));
}

/// Matrices that are far from singular, with values well apart.
stacks tame(std::int64_t n) {
  return 0.3 * random_stack(61, 2, n, n) + eye<double>(n) * (1.0 + 1.5 * arange<double>(n));
}

}  // namespace

TEST_CASE("derivatives of factors") {
  const stacks a = tame(5);
  const stacks tall = random_stack(62, 2, 4, 3), wide = random_stack(63, 2, 3, 4);
  const auto q_and_r = [](const stacks& a) {
    const auto [q, r] = linalg::qr(a);
    return vec(concat(flat(q), flat(r)));
  };
  const auto l_and_u = [](const stacks& a) {
    const auto [p, l, u] = linalg::lu(a);
    return vec(concat(flat(l), flat(u)));
  };
  const auto all_of_svd = [](const stacks& a) {
    const auto [u, s, v] = linalg::svd(a);
    return vec(concat(flat(u), flat(s), flat(v)));
  };
  check_derivatives(
      "cholesky", [](const stacks& a) { return flat(linalg::cholesky(positive(a))); }, a);
  check_derivatives("qr", q_and_r, a);
  check_derivatives("qr, tall", q_and_r, tall);
  check_derivatives("qr, wide", q_and_r, wide);
  check_derivatives("lu", l_and_u, a);
  check_derivatives("lu, tall", l_and_u, tall);
  check_derivatives("lu, wide", l_and_u, wide);
  check_derivatives(
      "eigh",
      [](const stacks& a) {
        const auto [w, v] = linalg::eigh(a);
        return vec(concat(flat(w), flat(v)));
      },
      a);
  check_derivatives("svd", all_of_svd, a);
  check_derivatives("svd, tall", all_of_svd, tall);
  check_derivatives("svd, wide", all_of_svd, wide);
}

TEST_CASE("derivatives of what is made of factors") {
  const stacks a = tame(5), y = random_stack(64, 2, 5, 2), tall = random_stack(62, 2, 4, 3);
  check_derivatives(
      "triangular_solve",
      [](const stacks& a) {
        const auto right = slice<2>(a, 0, 2);
        return vec(concat(flat(linalg::triangular_solve(a, right)),
                          flat(linalg::triangular_solve(a, right, {.lower = false, .unit = true})),
                          flat(linalg::triangular_solve(a, right, {.transposed = true}))));
      },
      a);
  check_derivatives(
      "solve", [&](const stacks& a) { return flat(linalg::solve(a, y + slice<2>(a, 1, 3))); }, a);
  check_derivatives(
      "inv", [](const stacks& a) { return flat(linalg::inv(a)); }, a);
  check_derivatives(
      "det", [](const stacks& a) { return vec(linalg::det(a)); }, a);
  check_derivatives(
      "slogdet", [](const stacks& a) { return vec(linalg::slogdet(a).second); }, a);
  check_derivatives(
      "logdet", [](const stacks& a) { return vec(linalg::logdet(positive(a))); }, a);
  check_derivatives(
      "pinv", [](const stacks& a) { return flat(linalg::pinv(a)); }, tall);
  check_derivatives(
      "expm", [](const stacks& a) { return flat(linalg::expm(a)); }, a);
  check_derivatives(
      "matrix_power", [](const stacks& a) { return flat(linalg::matrix_power(a, -3)); }, a);
  check_derivatives(
      "norms",
      [](const stacks& a) {
        return vec(
            concat(linalg::matrix_norm(a), linalg::matrix_norm<linalg::nuc>(a), linalg::matrix_norm<linalg::two>(a)));
      },
      tall);
}

TEST_CASE("derivatives of small matrices, which kernels compute element by element") {
  const stacks a = tame(3), y = random_stack(64, 2, 3, 2);
  check_derivatives(
      "small",
      [&](const stacks& a) {
        return vec(concat(flat(linalg::cholesky(positive(a))), flat(linalg::triangular_solve(a, y)),
                          flat(linalg::solve(a, y)), linalg::det(a), linalg::slogdet(a).second,
                          linalg::logdet(positive(a))));
      },
      a);
}

TEST_CASE("derivatives compiled, and of equal values") {
  const stacks a = tame(3);
  const auto loss = [](const stacks& a) {
    return real(sum(linalg::slogdet(positive(a)).second) + sum(sin(linalg::cholesky(positive(a)))));
  };
  check_close(compile(grad(loss))(a).to_vector(), compile(grad(loss), plain)(a).to_vector(), 1e-9);
  // Values alone have a derivative where they are equal; vectors have none.
  const matrix one = eye<double>(3);
  const auto values = compile(grad([](const matrix& a) { return sum(linalg::eigh(a).first); }), plain);
  check_close(values(one).to_vector(), one.to_vector(), 1e-12);
  const auto nuclear = compile(grad([](const matrix& a) { return linalg::matrix_norm<linalg::nuc>(a); }), plain);
  check_close(nuclear(one).to_vector(), one.to_vector(), 1e-12);
  const auto vectors = compile(grad([](const matrix& a) { return sum(sin(linalg::eigh(a).second)); }), plain);
  CHECK(vectors(one).to_vector()[1] != vectors(one).to_vector()[1]);
}
