// What does not fit is refused by a user_error, and by nothing else; what is accepted can be planned and printed.
#include <doctest/doctest.h>

#include <sinter/emit/cuda/kernel.hpp>

#include "draw.hpp"

TEST_CASE("graphs far too large to run are refused or planned, on the host and for a GPU") {
  std::size_t nodes = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    std::mt19937_64 bits(seed);
    fuzz::recipe how;
    how.theme = {65536, 3, std::int64_t{1} << 31, (std::int64_t{1} << 31) - 1, 46341};
    if (seed % 4 == 0) {
      how.theme = {fuzz::dim::symbol(0), fuzz::dim::symbol(1), fuzz::dim::symbol(0) * fuzz::dim::symbol(1), 65536};
      how.hints = {100000, 70000};
    }
    how.max_elements = (std::int64_t{1} << 31) - 1;
    how.derivatives = seed % 2 == 0;
    try {
      const fuzz::random_graph made(bits(), how);
      nodes += made.graph.size();
      INFO("seed " << seed << "\n" << sinter::ir::print(made.graph));
      sinter::ir::check(made.graph, "test");
      const auto rewritten = sinter::engine::rewrite::run_all(made.graph);
      sinter::ir::check(rewritten, "rewrite");
      CHECK_NOTHROW(fuzz::plan_graph(rewritten, bits, how.hints));
      sinter::engine::plan::memory_map memory;
      memory.hints = how.hints;
      memory.strides.resize(rewritten.size());
      CHECK_NOTHROW([&] {
        for (const auto& k :
             sinter::engine::plan::fuse(rewritten, memory, sinter::engine::plan::gpu_target({.blas = false})).kernels)
          sinter::engine::emit::cuda(k, sinter::engine::plan::gpu_target());
      }());
    } catch (const std::exception& e) {
      FAIL_CHECK("seed " << seed << ": " << std::string(e.what()));
    }
  }
  CHECK(nodes > 2000);
}

TEST_CASE("any op on any operands with any attributes is refused by a user_error, or accepted and consistent") {
  std::mt19937_64 bits(7);
  std::size_t refused = 0, accepted = 0;
  for (int round = 0; round < 40; ++round) {
    fuzz::recipe how = round % 3 == 0 ? fuzz::symbolic_recipe(bits) : fuzz::small_recipe(bits);
    fuzz::random_graph made(bits(), how);
    for (int i = 0; i < 500; ++i) (made.anything() ? accepted : refused) += 1;
    CHECK_NOTHROW(sinter::ir::check(made.graph, "test"));
  }
  CHECK(refused > 1000);
  CHECK(accepted > 1000);
}
