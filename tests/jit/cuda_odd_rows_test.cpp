// Rows that no vector divides, between products on a GPU: values and derivatives are those of the host, whose arrays have no gaps.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include <sinter/sinter.hpp>

#include "../emulator/select.hpp"

namespace {

using namespace sinter;

template <class T>
tensor<T, 2> drawn(std::uint64_t seed, std::int64_t rows, std::int64_t columns) {
  return cast<T>(0.5f * normal<float>(make_key(seed), rows, columns));
}

/// Of a narrow dtype as f32.
template <class X>
auto widened(const X& x) {
  if constexpr (std::is_same_v<typename X::value_type, double>) return x;
  else return cast<float>(x);
}

/// |got - want| as a part of the largest element of `want`, at most.
template <class T>
void check_close(const tensor<T, 2>& got, const tensor<T, 2>& want, double most) {
  const auto a = tensor<double, 2>(cast<double>(got.to(device::cpu()))).to_vector(),
             b = tensor<double, 2>(cast<double>(want)).to_vector();
  REQUIRE(a.size() == b.size());
  double largest = 0, worst = 0;
  for (const double x : b) largest = std::max(largest, std::abs(x));
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double off = std::abs(a[i] - b[i]);
    worst = std::isfinite(off) ? std::max(worst, off) : HUGE_VAL;
  }
  CHECK(largest > 0);
  CHECK(worst <= most * largest);
}

/// The function of (x, w, v) compiled on both devices; x is (rows, 48), w (48, columns), v (columns, 24).
template <class T, class F>
void check_program(const char* name, std::int64_t rows, std::int64_t columns, F f) {
  CAPTURE(name);
  CAPTURE(rows);
  CAPTURE(columns);
  const auto x = drawn<T>(1, rows, 48), w = drawn<T>(2, 48, columns), v = drawn<T>(3, columns, 24);
  const auto compiled = compile(f);
  const device gpu = device::cuda(0);
  const auto got = compiled(x.to(gpu), w.to(gpu), v.to(gpu)), want = compiled(x, w, v);
  const double most = std::is_same_v<T, float> ? 2e-5 : std::is_same_v<T, double> ? 1e-12 : 3e-2;
  check_close(got.first, want.first, most);
  check_close(got.second, want.second, most);
}

template <class T>
void check_all(std::int64_t rows, std::int64_t columns) {
  check_program<T>("cross entropy", rows, columns, [](auto x, auto w, auto v) {
    const auto loss = [&](const auto& both) {
      const tensor<T, 2> logits = matmul(both.first, both.second);
      const tensor<std::int64_t, 1> labels = arange<std::int64_t>(x.size(0)) * std::int64_t{7} % x.size(1);
      return cross_entropy(widened(logits), labels) + sum(widened(v)) * 0;
    };
    auto g = grad(loss)(std::pair{x, w});
    return std::pair<tensor<T, 2>, tensor<T, 2>>{g.first, g.second};
  });
  check_program<T>("softmax between products", rows, columns, [](auto x, auto w, auto v) {
    const auto f = [&](const auto& both) {
      const auto y = matmul(softmax(matmul(x, both.first)), both.second);
      return sum(widened(tensor<T, 2>(y * y)));
    };
    auto g = grad(f)(std::pair{w, v});
    return std::pair<tensor<T, 2>, tensor<T, 2>>{g.first, g.second};
  });
  check_program<T>("norm and sums of columns", rows, columns, [](auto x, auto w, auto v) {
    const tensor<T, 2> y = matmul(x, w), z = tanh(y) * rsqrt(mean(y * y, axis<-1>, keepdims) + T(1e-3f));
    const tensor<T, 2> columns = reshape(sum(z * y, axis<0>), {1, y.size(1)});
    return std::pair<tensor<T, 2>, tensor<T, 2>>{matmul(z, v), columns};
  });
  check_program<T>("read at an index, turned", rows, columns, [](auto x, auto w, auto v) {
    const tensor<T, 2> y = matmul(x, w);
    const tensor<std::int64_t, 1> at =
        (arange<std::int64_t>(y.size(0)) * std::int64_t{5} + std::int64_t{1}) % y.size(1);
    const tensor<T, 2> picked = take_along_axis(y, reshape(at, {-1, 1}), axis<1>);
    return std::pair<tensor<T, 2>, tensor<T, 2>>{matmul(transpose(y) + sum(v), x), picked + sum(v)};
  });
}

}  // namespace

TEST_CASE("rows that no vector divides") {
  if (device_count() == 0) return;
  check_all<float>(300, 259);
  check_all<bf16>(521, 277);
  check_all<f16>(300, 1031);
  check_all<double>(150, 301);
}

TEST_CASE("what lies between padded rows is 0 where a product adds it up, and verify looks at padded arrays") {
  if (device_count() == 0) return;
  const auto f = [](tensor<float, 2> x, tensor<float, 2> w, tensor<float, 2> v) {
    // The second product's operands both have padded rows of its terms.
    const tensor<float, 2> y = tanh(matmul(x, w)), z = sin(matmul(transpose(v), w));
    return matmul(y, transpose(z));
  };
  const device gpu = device::cuda(0);
  const auto x = drawn<float>(1, 300, 48).to(gpu), w = drawn<float>(2, 48, 259).to(gpu),
             v = drawn<float>(3, 48, 280).to(gpu);
  const auto want = f(x.to(device::cpu()), w.to(device::cpu()), v.to(device::cpu()));
  check_close(compile(f)(x, w, v), want, 2e-5);
  // The first call runs step by step, the next records, later ones change what was recorded.
  const auto recorded = compile(f, {.mode = mode::reduce_overhead});
  std::vector<tensor<float, 2>> kept;
  for (int call = 0; call < 6; ++call) {
    const tensor<float, 2> moved = (x + 0.f).eval();
    kept.push_back(recorded(moved, w, v));
    kept.push_back(moved);
  }
  for (std::size_t call = 0; call < kept.size(); call += 2) check_close(kept[call], want, 2e-5);
  const verification found = verify(f)(x, w, v);
  CHECK_MESSAGE(found, found.text());
  CHECK(found.compared > 3 * 259 * 280);
}

TEST_CASE("products of parts of wider rows leave out what lies beside them") {
  if (device_count() == 0) return;
  const device gpu = device::cuda(0);
  const auto wide = drawn<float>(4, 300, 260), other = drawn<float>(5, 280, 260);
  const auto both = [](tensor<float, 2> a, tensor<float, 2> b) { return matmul(a, transpose(b)); };
  const auto one = [](tensor<float, 2> a, tensor<float, 2> b) { return matmul(a[0], transpose(b)); };
  for (const std::int64_t first : {0, 1}) {
    CAPTURE(first);
    const auto part = [&](const tensor<float, 2>& x) { return tensor<float, 2>(slice<1>(x, first, first + 259)); };
    const auto a = part(wide), b = part(other), c = part(wide.to(gpu)), d = part(other.to(gpu));
    check_close(compile(both)(c, d), tensor<float, 2>(both(a, b)), 2e-5);
    check_close(tensor<float, 2>(reshape(compile(one)(c, d), {1, 280})), tensor<float, 2>(reshape(one(a, b), {1, 280})),
                2e-5);
    CHECK(verify(both)(c, d).found == verification::outcome::agrees);
  }
}

TEST_CASE("rows that vectors divide have the same values") {
  if (device_count() == 0) return;
  check_all<float>(300, 256);
}
