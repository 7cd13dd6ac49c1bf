// Random graphs planned, printed, built and run for a GPU, against the reference with bounds on every element.
// test_fuzz --backend cuda does the same for as many seeds as it is given.
#include <doctest/doctest.h>

#include <sinter/jit/pipeline.hpp>

#include "draw.hpp"
#include "programs.hpp"

namespace {

template <class Recipe>
void fuzz_device(const std::string& what, std::uint64_t many, Recipe&& recipe) {
  ::setenv("SINTER_COMPILE_TIMEOUT", "280", 0);
  fuzz::tally tally;
  for (std::uint64_t seed = 1; seed <= many; ++seed) {
    std::mt19937_64 bits(seed);
    const auto graph = fuzz::random_graph(bits(), recipe(bits)).graph;
    INFO(what << " seed " << seed << "\n" << sinter::ir::print(graph));
    const auto layouts = fuzz::layouts_of(graph, bits, false);
    const fuzz::inputs in(graph, layouts, bits, {});
    const auto all = fuzz::evaluate(graph, in.values, {});
    std::vector<const fuzz::bounded*> wanted;
    for (auto id : graph.outputs) wanted.push_back(&all[id]);
    sinter::options options;
    options.deterministic = seed % 2 == 0;
    CHECK(fuzz::run_program(graph, in, layouts, wanted, options, sinter::device::cuda(0), tally) == "");
  }
  MESSAGE(what << ": " << tally.compared << " of " << tally.seen << " elements compared");
  CHECK(tally.compared > tally.seen / 2);
}

}  // namespace

TEST_CASE("random small graphs on a GPU") { fuzz_device("small", 12, fuzz::small_recipe); }
TEST_CASE("random large graphs on a GPU") { fuzz_device("large", 6, fuzz::large_recipe); }
