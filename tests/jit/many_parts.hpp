// tests/jit/many_parts.hpp: programs of very many parts, whose kernels and texts do not grow with them.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <sinter/sinter.hpp>

namespace many_parts {

using namespace sinter;
using vector_of = std::vector<tensor<float, 1>>;
using scalars = std::vector<tensor<float, 0>>;
using flat = tensor<float, 1>;

/// Elements of each of n parts.
inline constexpr std::int64_t length = 6;

inline vector_of parts_of(const flat& x, int n) {
  vector_of out;
  for (int i = 0; i < n; ++i) out.push_back(slice<0>(x, length * i, length * (i + 1)));
  return out;
}

/// A function of one vector that takes it apart, and as it is told of n; how many texts and kernels it may have at most, whatever n.
struct program {
  std::string name;
  std::function<flat(const flat&, int)> f;
  std::size_t texts, kernels;
};

inline flat of_rows(const tensor<float, 2>& x) { return reshape(x, {-1}); }

inline std::vector<program> programs() {
  const auto each = [](auto&& one) {
    return [one](const flat& x, int n) {
      const auto p = parts_of(x, n);
      vector_of out;
      for (int i = 0; i < n; ++i) out.push_back(one(p[static_cast<std::size_t>(i)], i));
      return flat(concat(out));
    };
  };
  const auto gradient_of = [](auto&& loss) {
    return [loss](const flat& x, int n) {
      return flat(grad([loss, n](const flat& y) { return tensor<float, 0>(loss(y, n)); })(x));
    };
  };
  return {
      {"concat", each([](const flat& x, int) { return flat(tanh(x)); }), 2, 2},
      {"other numbers", each([](const flat& x, int i) { return flat(x * (0.5f + static_cast<float>(i))); }), 2, 2},
      {"reversed", each([](const flat& x, int) { return flat(flip(x) - x); }), 2, 2},
      {"softmax", each([](const flat& x, int) { return flat(softmax(x)); }), 2, 2},
      {"stack<1>",
       [](const flat& x, int n) {
         vector_of out;
         for (const auto& p : parts_of(x, n)) out.push_back(exp(p));
         return of_rows(stack<1>(out));
       },
       2, 2},
      {"products of elements",
       [](const flat& x, int n) {
         scalars out;
         for (int i = 0; i < n; ++i) out.push_back(x[i] * x[(i * 7 + 3) % n]);
         return flat(stack(out));
       },
       3, 4},
      {"sums",
       [](const flat& x, int n) {
         scalars out;
         for (const auto& p : parts_of(x, n)) out.push_back(sum(p * p));
         return flat(stack(out));
       },
       3, 3},
      {"ragged",
       [](const flat& x, int n) {
         vector_of out;
         for (int i = 0; i < n; ++i) out.push_back(cos(slice<0>(x, i, 2 * i + 2)));
         return flat(concat(out));
       },
       3, 4},
      {"gradient of parts", gradient_of([](const flat& x, int n) {
         tensor<float, 0> s = sum(x) * 0.f;
         const auto p = parts_of(x, n);
         for (int i = 0; i < n; ++i) s = s + sum(sin(p[static_cast<std::size_t>(i)]) * static_cast<float>(i));
         return s;
       }),
       4, 4},
      {"gradient of elements", gradient_of([](const flat& x, int n) {
         scalars out;
         for (int i = 0; i < n; ++i) out.push_back(x[i] * x[(i + 1) % n]);
         return sum(stack(out));
       }),
       8, 12},
  };
}

inline void check_close(const std::vector<float>& got, const std::vector<float>& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO(i);
    REQUIRE(std::abs(got[i] - want[i]) <= 1e-5f * (1 + std::abs(want[i])));
  }
}

/// Each program gives what it gives eagerly, of a few texts and kernels.
inline void run(device where, int n) {
  const flat x = normal<float>(make_key(5), length * n), there = x.to(where);
  for (const auto& p : programs()) {
    INFO(p.name, " of ", n);
    const auto f = compile([&](const flat& y) { return p.f(y, n); });
    check_close(f(there).to(device::cpu()).to_vector(), p.f(x, n).to_vector());
    const report r = f.report();
    CHECK(r.backend != "reference");
    CHECK(r.sources.size() <= p.texts);
    CHECK(r.kernels <= p.kernels);
  }
}

}  // namespace many_parts
