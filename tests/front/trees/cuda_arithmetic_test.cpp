// Trees as vectors on a GPU: against the host's numbers, eagerly and compiled.
#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "arithmetic_programs.hpp"

using namespace sinter;
using namespace tree_arithmetic;

namespace {

/// Without a GPU these run on the host and check less.
device gpu() { return device_count() > 0 ? device::cuda(0) : device::cpu(); }

}  // namespace

TEST_CASE("sums, products and norms of trees on a GPU") {
  const auto program = [](const auto& x, const auto& y, const auto& a) { return everything(x, y, a); };
  check_everything<float>(program, gpu(), 1e-5);
  check_everything<float>(compile(program, {.fullgraph = true}), gpu(), 1e-5);
  check_everything<bf16>(compile(program, {.fullgraph = true}), gpu(), 5e-3);
}

TEST_CASE("a clipped step on a GPU is the host's") {
  const params<float> p = random_params<float>(1, 6);
  const auto step = compile([](const params<float>& p, float limit) { return clipped_step(p, limit); });
  const auto [want, n] = step(p, 2.f);
  const auto [got, m] = step(to(p, gpu()), 2.f);
  check_close(elements_of(got), elements_of(want), 1e-5);
  check_close(std::vector{m.to({}).item()}, std::vector{n.item()}, 1e-5);
}
