// Donated arguments, however many; equal kernels, which are compiled, and counted, once.
#include "donation_programs.hpp"

#include <cstdlib>
#include <filesystem>

using namespace donation_programs;

TEST_CASE("hundreds of donated arguments lend their memory") {
  for (const std::size_t n : {std::size_t{64}, std::size_t{65}, std::size_t{200}}) updates(n, {}, device::cpu());
  updates(200, {.dynamic = dynamic::yes}, device::cpu());
}

TEST_CASE("donated handles are empty, and nothing else is") {
  for (const char* backend : {"cpu", "reference"}) handles({.backend = backend}, device::cpu());
  handles({.dynamic = dynamic::yes}, device::cpu());
}

TEST_CASE("a call that donates hundreds of arguments whose extents differ from all results takes none") {
  const auto f = compile([](std::vector<matrix> p) { return concat<0>(p); }, {.donate = {0}});
  for (int k = 0; k < 2; ++k) CHECK(f(parameters(150, device::cpu())).size(0) == 150 / 4 * 18 + 3 + 4);
}

TEST_CASE("equal kernels are compiled once, and the report says so") {
  std::string folder = "/tmp/sinter-test-XXXXXX";
  REQUIRE(mkdtemp(folder.data()));
  const auto fn = [](const std::vector<matrix>& p) {
    return tree_map([](const auto& x) { return x * 0.5371f + 3; }, p);
  };
  const auto f = compile(fn, {.cache_dir = folder});
  f(parameters(60, device::cpu()));
  const report r = f.report();
  const auto again =
      compile([&](const std::vector<matrix>& p) { return tree_map([](const auto& x) { return -x; }, fn(p)); },
              {.cache_dir = folder});
  again(parameters(30, device::cpu()));
  std::filesystem::remove_all(folder);
  CHECK(r.kernels == 60);
  CHECK(r.sources.size() == 4);
  CHECK(r.compiled == 4);
  CHECK(again.report().compiled == again.report().sources.size());
}
