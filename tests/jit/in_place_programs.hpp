// tests/jit/in_place_programs.hpp: programs whose intermediates take over each other's memory, on the host and on a GPU.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

namespace in_place_programs {

using namespace sinter;

/// f(x, w, v) on a device beside the reference, where x is (rows, 24), w (24, columns) and v (columns, 7).
template <class F>
report check(const char* name, std::int64_t rows, std::int64_t columns, device on, F f, bool special = false) {
  CAPTURE(name);
  CAPTURE(rows);
  CAPTURE(columns);
  f32_2 x = normal<float>(make_key(1), rows, 24);
  const f32_2 w = normal<float>(make_key(2), 24, columns), v = normal<float>(make_key(3), columns, 7);
  if (special && rows > 3) x(1, 5) = NAN, x(2, 0) = INFINITY;
  const auto compiled = compile(f);
  const std::vector<float> got = compiled(x.to(on), w.to(on), v.to(on)).to(device::cpu()).to_vector();
  const std::vector<float> want = compile(f, {.backend = "reference"})(x, w, v).to_vector();
  REQUIRE(got.size() == want.size());
  float largest = 0, worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    CHECK(std::isnan(got[i]) == std::isnan(want[i]));
    if (!std::isfinite(want[i])) continue;
    largest = std::max(largest, std::abs(want[i]));
    worst = std::max(worst, std::abs(got[i] - want[i]));
  }
  CHECK(worst <= 3e-5f * largest);
  return compiled.report();
}

/// Between two products each: passes over rows, over columns, over all; rows' sums beside; other reads of what is overwritten.
inline void run(device on) {
  const auto soft = [](auto x, auto w, auto v) { return matmul(softmax(matmul(x, w)), v); };
  const auto columns = [](auto x, auto w, auto v) { return matmul(softmax(matmul(x, w), axis<0>), v); };
  const auto normal = [](auto x, auto w, auto v) { return matmul(layer_norm(matmul(x, w)), v); };
  const auto total = [](auto x, auto w, auto v) {
    const auto p = evaluate(matmul(x, w));
    return matmul(evaluate(exp(p - max(p)) / 3.f), v);
  };
  const auto both = [](auto x, auto w, auto v) {
    const auto p = evaluate(matmul(x, w)), q = evaluate(tanh(p) * sum(p, axis<1>, keepdims));
    return evaluate(matmul(q, v) + sum(q * q));
  };
  const auto again = [](auto x, auto w, auto v) {
    const auto p = evaluate(matmul(x, w)), q = evaluate(softmax(p));
    return evaluate(matmul(q, v) + matmul(p, v));
  };
  const auto turned = [](auto x, auto w, auto v) {
    const auto p = evaluate(matmul(x, matmul(w, transpose(w)))), q = evaluate(softmax(p + transpose(p)));
    (void)v;
    return evaluate(matmul(q, p));
  };
  const auto gradient = [](auto x, auto w, auto v) {
    return grad([&](const auto& w) { return sum(square(matmul(log_softmax(matmul(x, w)), v))); })(w);
  };
  for (const auto& [rows, cols] : {std::pair{33, 130}, {1, 517}, {70, 64}, {300, 1}, {0, 9}, {5, 4099}}) {
    check("softmax", rows, cols, on, soft);
    check("softmax of columns", rows, cols, on, columns);
    check("layer_norm", rows, cols, on, normal);
    check("both", rows, cols, on, both);
    check("again", rows, cols, on, again);
    check("gradient", rows, cols, on, gradient);
    if (rows > 0) check("total", rows, cols, on, total);
  }
  check("turned", 24, 130, on, turned);
  check("special", 33, 130, on, soft, true);
  // The product's elements and their softmax are one block. Panels of products need less than another one.
  const report r = check("softmax", 400, 3000, on, soft);
  CHECK(r.scratch_bytes >= 400 * 3000 * 4);
  CHECK(r.scratch_bytes < 2 * 400 * 3000 * 4);
}

}  // namespace in_place_programs
