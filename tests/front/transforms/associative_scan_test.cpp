// associative_scan: against the loop, of tensors, trees and stacks, both ways, with gradients.
#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../../texts.hpp"
#include "lane_loops.hpp"

using namespace lane_loops;
using texts::contains;
using texts::error_of;

namespace running {

/// x -> a x + b
struct affine {
  matrix a;
  vec b;
};

}  // namespace running

using running::affine;

namespace {

affine after(const affine& f, const affine& g) { return {matmul(f.a, g.a), vec(matmul(f.b, g.a) + g.b)}; }

std::vector<affine> some_affine(int n) {
  std::vector<affine> all;
  for (int i = 0; i < n; ++i) all.push_back({matrix(numbers(i, 3, 3) * 0.6), numbers(i + 70, 3)});
  return all;
}

template <class T, class F>
std::vector<T> loop(const F& f, std::vector<T> all, bool backwards) {
  const std::size_t n = all.size();
  for (std::size_t k = 1; k < n; ++k) {
    const std::size_t i = backwards ? n - 1 - k : k;
    all[i] = f(all[backwards ? i + 1 : i - 1], all[i]);
  }
  return all;
}

}  // namespace

TEST_CASE(
    "associative_scan of structs is the loop, for odd and even lengths and both ways: alone, compiled, interpreted") {
  for (int n : {1, 2, 3, 4, 5, 7, 8, 13, 18}) {
    CAPTURE(n);
    const auto all = some_affine(n);
    const auto xs = stack_tree(all);
    const auto want = stack_tree(loop(after, all, false)), back = stack_tree(loop(after, all, true));
    const auto f = [](const stacked<affine>& xs) {
      return std::pair{associative_scan(after, xs), associative_scan(after, xs, reversed)};
    };
    check_same(associative_scan(after, xs), want);
    if (n % 5 != 3) continue;  // others are other kernels
    check_same(associative_scan(after, xs, reversed), back);
    for (const char* backend : {"cpu", "reference"}) {
      const auto [a, b] = compile(f, {.backend = backend})(xs);
      check_same(a, want);
      check_same(b, back);
    }
  }
}

TEST_CASE("associative_scan of tensors and trees: integers, extremes, items of rank 0, none and one") {
  const auto add = [](const count& a, const count& b) { return a + b; };
  for (int n = 0; n < 14; ++n) {
    const ids x = randint<std::int64_t>(make_key(n), -9, 9, n);
    CHECK(associative_scan(add, x).to_vector() == cumsum<0>(x).to_vector());
    CHECK(associative_scan(add, x, reversed).to_vector() == flip<0>(cumsum<0>(flip<0>(x))).to_vector());
  }
  const auto both = [](const std::pair<real, std::vector<vec>>& a, const std::pair<real, std::vector<vec>>& b) {
    return std::pair{real(maximum(a.first, b.first)), std::vector<vec>{vec(minimum(a.second[0], b.second[0]))}};
  };
  const vec x = numbers(1, 11);
  const matrix y = numbers(2, 11, 4);
  const auto [high, low] = compile([&](const vec& x, const matrix& y) {
    return associative_scan(both, std::pair{x, std::vector<matrix>{y}});
  })(x, y);
  check_same(high, cummax<0>(x));
  check_same(low[0], cummin<0>(y));
  const tensor<double, dims{6, 2}> fixed = numbers(3, 6, 2);
  check_same(associative_scan([](const auto& a, const auto& b) { return a * b; }, fixed), cumprod<0>(fixed));
}

TEST_CASE(
    "associative_scan: the gradient is that of scan; the number of kernels grows with the logarithm of the length") {
  // A recurrence h = a h + b, by pairs (a, b).
  const auto step = [](const std::pair<vec, vec>& f, const std::pair<vec, vec>& g) {
    return std::pair{vec(f.first * g.first), vec(f.second * g.first + g.second)};
  };
  const auto fast = [&](const matrix& a, const matrix& b) {
    return sum(exp(associative_scan(step, std::pair{a, b}).second * 0.3));
  };
  const auto slow = [](const matrix& a, const matrix& b) {
    return sum(exp(scan(
                       [](const vec& h, const std::pair<vec, vec>& x) {
                         const vec next = h * x.first + x.second;
                         return std::pair{next, next};
                       },
                       zeros<double>(a.size(1)), std::pair{a, b})
                       .second *
                   0.3));
  };
  const matrix a = numbers(1, 13, 4), b = numbers(2, 13, 4);
  check_same(compile(grad(fast))(a, b), compile(grad(slow))(a, b));
  check_same(compile(grad<1>(fast))(a, b), compile(grad<1>(slow))(a, b));
  const auto kernels = [&](int n) {
    const auto f = compile([&](const matrix& a, const matrix& b) { return associative_scan(step, std::pair{a, b}); });
    f(matrix(numbers(3, n, 4)), matrix(numbers(4, n, 4)));
    return f.report().kernels;
  };
  CHECK(kernels(16) <= 4 * 4);
  CHECK(kernels(256) <= 4 * 8);
}

TEST_CASE("associative_scan refuses in words") {
  const matrix x = numbers(1, 5, 3);
  CHECK(contains(error_of([&] { associative_scan([](const vec& a, const vec&) { return concat<0>(a, a); }, x); }),
                 "[associative_scan] the function makes (6,) of items of (3,)"));
  CHECK(contains(error_of([&] {
                   associative_scan([](const std::pair<vec, real>& a, const std::pair<vec, real>&) { return a; },
                                    std::pair{x, vec(numbers(2, 4))});
                 }),
                 "[associative_scan] the first axes of xs differ: 5 and 4"));
}
