// autocast: which products are rounded, that nothing else is, and that it reaches through compile and gradients.
#include "../ops_support.hpp"

#include <stdexcept>

#include <sinter/sinter.hpp>

namespace {

using namespace sinter;
using ops::check_equal;
using ops::values;

template <class Low>
double low(double x) {
  return static_cast<float>(Low(static_cast<float>(x)));
}

/// Elements that 16 bits cannot hold.
tensor<float, 2> fine(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  return uniform<float>(make_key(seed), rows, cols) - 0.5f;
}

/// a · b with operands rounded to Low, summed exactly and rounded again.
template <class Low>
ops::array product(const tensor<float, 2>& a, const tensor<float, 2>& b) {
  return ops::make({a.size(0), b.size(1)}, [&](const ops::coord& c) {
    double total = 0;
    for (std::int64_t k = 0; k < a.size(1); ++k) total += low<Low>(a(c[0], k)) * low<Low>(b(k, c[1]));
    return low<Low>(total);
  });
}

// One rounding of the result may fall the other way, or be left out where the product's kernel goes on computing.
constexpr double one_ulp = 4e-3;

double distance(const ops::array& a, const ops::array& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.at.size(); ++i) sum += std::abs(a.at[i] - b.at[i]);
  return sum;
}
bool differs(const ops::array& a, const ops::array& b) { return a.at != b.at; }

}  // namespace

TEST_CASE("products of f32 are rounded, eagerly and compiled") {
  const auto a = fine(9, 33, 1), b = fine(33, 7, 2);
  const auto f = [](auto x, auto y) { return matmul(x, y); };
  const auto exact = values(matmul(a, b));
  const auto brain = product<bf16>(a, b), half = product<f16>(a, b);
  CHECK(differs(exact, brain));
  check_equal(values(autocast<bf16>(f)(a, b)), brain, one_ulp);
  check_equal(values(autocast<f16>(f)(a, b)), half, one_ulp / 8);
  check_equal(values(compile(autocast<bf16>(f))(a, b)), brain, one_ulp);
  CHECK(distance(values(autocast<bf16>(f)(a, b)), brain) < 0.1 * distance(exact, brain));
  CHECK(distance(values(autocast<f16>(f)(a, b)), half) < 0.1 * distance(exact, half));
  CHECK(distance(values(compile(autocast<bf16>(f))(a, b)), brain) < distance(exact, brain));
  const auto compiled = compile(f);
  check_equal(values(compiled(a, b)), exact, 1e-6);
  check_equal(values(autocast<bf16>(compiled)(a, b)), brain, one_ulp);
  CHECK(differs(values(autocast<bf16>(compiled)(a, b)), values(compiled(a, b))));
  check_equal(values(compiled(a, b)), exact, 1e-6);
  check_equal(values(autocast<bf16>(autocast<float>(f))(a, b)), exact, 1e-6);
}

TEST_CASE("einsum is rounded in all its forms") {
  const auto a = fine(5, 8, 1), b = fine(8, 6, 2), c = fine(5, 8, 3);
  check_equal(values(autocast<bf16>([](auto x, auto y) { return einsum<"ij,jk->ik">(x, y); })(a, b)),
              product<bf16>(a, b), one_ulp);
  const auto rows = [](auto x, auto y) { return einsum<"ij,ij->i">(x, y); };
  const auto want = ops::make({5}, [&](const ops::coord& i) {
    double total = 0;
    for (std::int64_t k = 0; k < 8; ++k) total += low<bf16>(a(i[0], k)) * low<bf16>(c(i[0], k));
    return low<bf16>(total);
  });
  check_equal(values(autocast<bf16>(rows)(a, c)), want, one_ulp);
  check_equal(values(compile(autocast<bf16>(rows))(a, c)), want, one_ulp);
  const auto outer = [](auto x, auto y) { return einsum<"i,j->ij">(x, y); };
  const auto u = slice<0>(a, 0, 1), v = slice<0>(c, 0, 1);
  const auto outer_want =
      ops::make({8, 8}, [&](const ops::coord& i) { return low<bf16>(low<bf16>(u(0, i[0])) * low<bf16>(v(0, i[1]))); });
  check_equal(values(autocast<bf16>(outer)(flatten(u), flatten(v))), outer_want, one_ulp);
}

TEST_CASE("everything else stays as written") {
  const auto x = fine(6, 40, 5);
  const auto untouched = [&](auto f) {
    check_equal(values(autocast<bf16>(f)(x)), values(f(x)));
    check_equal(values(compile(autocast<bf16>(f))(x)), values(compile(f)(x)));
  };
  untouched([](auto a) { return sum(a, axis<1>); });
  untouched([](auto a) { return softmax(a); });
  untouched([](auto a) { return layer_norm(a); });
  untouched([](auto a) { return mse_loss(a, a * 2); });
  untouched([](auto a) { return exp(a) * a + 1; });
  untouched([](auto a) { return cast<float>(cast<bf16>(a)) - a; });  // the user's own rounding is kept
  const auto d = cast<double>(x);
  const auto product = [](auto a) { return matmul(a, transpose(a)); };
  const tensor<double, 2> wide = d;
  check_equal(values(autocast<bf16>(product)(wide)), values(product(wide)));
}

TEST_CASE("derivatives are products in 16 bits too") {
  const auto a = fine(6, 16, 1), w = fine(16, 4, 2);
  const auto loss = [](auto p, auto x) { return sum(matmul(x, p)); };
  // The cotangent is 1 everywhere, so the gradient is a sum of rounded x.
  const auto want = ops::make({16, 4}, [&](const ops::coord& c) {
    double total = 0;
    for (std::int64_t i = 0; i < 6; ++i) total += low<bf16>(a(i, c[0]));
    return low<bf16>(total);
  });
  check_equal(values(grad(autocast<bf16>(loss))(w, a)), want, one_ulp);
  check_equal(values(autocast<bf16>(grad(loss))(w, a)), want, one_ulp);
  check_equal(values(compile(grad(autocast<bf16>(loss)))(w, a)), want, one_ulp);
  // The operands are rounded for certain.
  auto unrounded = want;
  for (std::int64_t k = 0; k < 16; ++k)
    for (std::int64_t j = 0; j < 4; ++j) {
      double total = 0;
      for (std::int64_t i = 0; i < 6; ++i) total += low<bf16>(a(i, k));
      unrounded.at[static_cast<std::size_t>(k * 4 + j)] = total;
    }
  const auto got = values(grad(autocast<bf16>(loss))(w, a));
  const double off = std::min(distance(got, want), distance(got, unrounded));
  CHECK(off < 0.1 * distance(values(grad(loss)(w, a)), unrounded));
  const auto [value, gradient] = value_and_grad(autocast<bf16>(loss))(w, a);
  static_assert(std::is_same_v<decltype(gradient), const tensor<float, 2>>);
  check_equal(values(gradient), want, one_ulp);
}

TEST_CASE("it ends with the call, also by an exception, and is the thread's own") {
  const auto a = fine(4, 4, 1);
  const auto exact = values(matmul(a, a));
  CHECK_THROWS_AS(autocast<bf16>([](auto x) -> tensor<float, 2> {
                    if (x.numel() > 0) throw std::runtime_error("stop");
                    return x;
                  })(a),
                  std::runtime_error);
  check_equal(values(matmul(a, a)), exact);
  const auto f = autocast<bf16>([](auto x) {
    const auto inside = matmul(x, x);
    const auto full = autocast<float>([](auto y) { return matmul(y, y); })(x);
    return std::pair{inside, full};
  });
  const auto [inside, full] = f(a);
  CHECK(differs(values(inside), exact));
  check_equal(values(full), exact);
  check_equal(values(matmul(a, a)), exact);
}
