// tests/jit/donation_programs.hpp: hundreds of donated arguments, on the host and on a GPU.
#pragma once

#include <cstddef>
#include <set>
#include <stdexcept>
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

/// Donated handles are empty after a call, whether their memory was taken or not; copies, views and what a call that threw was
/// given keep their elements.
inline void handles(options how, device on) {
  how.donate = {0};
  const auto some = compile([](std::vector<matrix> p) { return std::pair{matrix(p[0] * 2.f), sum(p[1])}; }, how);
  for (int k = 0; k < 3; ++k) {
    auto p = parameters(3, on);
    const matrix view = transpose(p[0]), copy = p[1];
    const auto [twice, total] = some(std::move(p));
    for (const auto& x : p) CHECK(!x.defined());
    CHECK(view.to(device::cpu())(4, 2) == value(0));
    CHECK(copy.to(device::cpu())(3, 4) == value(1));
    CHECK(twice.to(device::cpu())(2, 4) == value(0) * 2);
    CHECK(total.to(device::cpu()).item() == value(1) * 20);
  }

  const auto refuse = [](const tensor<float, 0>& s) {
    if (s.item() < 0) throw std::runtime_error("negative");
  };
  const auto refuses = compile(
      [&](matrix p, tensor<float, 0> s) {
        const matrix twice = p * 2.f;
        host_call(refuse, tensor<float, 0>(sum(twice) + s));
        return twice;
      },
      how);
  for (int k = 0; k < 2; ++k) {
    matrix p = parameters(1, on)[0];
    CHECK_THROWS(refuses(std::move(p), full<float>(-1000.f).to(on)));
    REQUIRE(p.defined());
    CHECK(p.to(device::cpu())(2, 4) == value(0));
    CHECK(refuses(std::move(p), full<float>(1000.f).to(on)).to(device::cpu())(2, 4) == value(0) * 2);
    CHECK(!p.defined());
  }
}

}  // namespace donation_programs
