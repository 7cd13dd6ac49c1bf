// tests/jit/hits_programs.hpp: what hits of many tensors run, on the host and on a GPU.
#pragma once

#include <vector>

#include <sinter/sinter.hpp>

namespace hits_programs {

using vec = sinter::tensor<float, 1>;

template <class Vectors>
vec total(vec x, const Vectors& others) {
  for (const vec& y : others) x = x + y;
  return x;
}

/// A loop of known length, one of unknown length and a branch, each of which reads all of `others`.
inline vec in_steps(vec x, sinter::tensor<bool, 0> up, const std::vector<vec>& others) {
  const vec twice = sinter::fori_loop(
      0, 2, [&](auto, vec v) { return total(v, others); }, x);
  const vec grown =
      sinter::while_loop([](vec v) { return sum(v) < 1e5f; }, [&](vec v) { return total(v, others); }, twice);
  return sinter::cond(
      up, [&](vec v) { return total(v, others); }, [&](vec v) { return total(v * 2.f, others); }, grown);
}

}  // namespace hits_programs
