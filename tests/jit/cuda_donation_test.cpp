// The same as donation_test on a GPU.
#include "donation_programs.hpp"

#include <cstdlib>
#include <filesystem>

using namespace donation_programs;

TEST_CASE("hundreds of donated arguments lend their memory, recorded or not") {
  for (const mode how : {mode::standard, mode::reduce_overhead}) {
    CAPTURE(how == mode::reduce_overhead);
    updates(200, {.mode = how}, device::cuda(0));
  }
}

TEST_CASE("donated handles are empty on a GPU, and nothing else is") {
  for (const mode how : {mode::standard, mode::reduce_overhead}) handles({.mode = how}, device::cuda(0));
}

TEST_CASE("a step that donates 200 arguments allocates nothing for its results") {
  const auto step = compile(
      [](std::vector<matrix> p) { return tree_map([](const auto& x) { return x * 0.5f + 1; }, p); }, {.donate = {0}});
  auto p = step(parameters(200, device::cuda(0)));
  p = step(std::move(p));
  const auto before = memory_stats(device::cuda(0)).allocations;
  for (int k = 0; k < 3; ++k) p = step(std::move(p));
  CHECK(memory_stats(device::cuda(0)).allocations - before <= 3);  // a launch's table of addresses
  CHECK(p[199].to(device::cpu())(0, 0) == doctest::Approx((value(199) - 2) / 32 + 2));
}

TEST_CASE("equal kernels are compiled once, and the report says so") {
  std::string folder = "/tmp/sinter-test-XXXXXX";
  REQUIRE(mkdtemp(folder.data()));
  const auto f = compile(
      [](matrix x) {
        for (int k = 0; k < 4; ++k) x = softmax(softmax(x * 0.5371f, axis<0>), axis<1>);
        return x;
      },
      {.cache_dir = folder});
  f(full<float>(0.5f, 33, 65).to(device::cuda(0)));
  const report r = f.report();
  std::filesystem::remove_all(folder);
  CHECK(r.sources.size() < r.kernels);
  CHECK(r.compiled == r.sources.size());
}
