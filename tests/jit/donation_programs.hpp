// tests/jit/donation_programs.hpp: hundreds of donated arguments, on the host and on a GPU.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

namespace donation_programs {

using namespace sinter;
using matrix = tensor<float, 2>;

inline float value(std::size_t i) { return float(i % 17) - 3.5f; }

inline std::vector<matrix> parameters(std::size_t n, device on) {
  std::vector<matrix> all;
  for (std::size_t i = 0; i < n; ++i) all.push_back(full<float>(value(i), 3 + std::int64_t(i % 4), 5).to(on));
  return all;
}

inline std::multiset<const float*> addresses(const std::vector<matrix>& all) {
  std::multiset<const float*> out;
  for (const auto& x : all) out.insert(x.data());
  return out;
}

/// Every result takes the memory of an argument; one that is held by somebody else keeps its own.
inline void updates(std::size_t n, options how, device on) {
  how.donate = {0};
  const auto step = compile(
      [](std::vector<matrix> p, float rate) { return tree_map([&](const auto& x) { return x * 0.5f + rate; }, p); },
      how);
  auto p = step(parameters(n, on), 1.f);
  const auto before = addresses(p);
  CHECK(before.size() == n);
  p = step(std::move(p), 1.f);
  CHECK(addresses(p) == before);
  for (std::size_t i = 0; i < n; ++i) REQUIRE(p[i].to(device::cpu())(0, 4) == (value(i) * 0.5f + 1) * 0.5f + 1);

  const matrix held = p[n - 1];
  const float kept = held.to(device::cpu())(1, 1);
  p = step(std::move(p), 2.f);
  const auto after = addresses(p);
  std::size_t reused = 0;
  for (const float* a : after) reused += before.count(a);
  CHECK(reused == n - 1);
  CHECK(after.count(held.data()) == 0);
  CHECK(held.to(device::cpu())(1, 1) == kept);
  CHECK(p[n - 1].to(device::cpu())(1, 1) == kept * 0.5f + 2);

  const auto lent = p;  // nothing of it may be taken
  const auto q = step(std::move(p), 1.f);
  for (std::size_t i = 0; i < n; ++i)
    REQUIRE(q[i].to(device::cpu())(2, 2) == lent[i].to(device::cpu())(2, 2) * 0.5f + 1);
}

}  // namespace donation_programs
