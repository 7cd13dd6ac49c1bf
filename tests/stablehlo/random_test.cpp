// Random graphs over every op as StableHLO modules, which an interpreter of the text runs, against the reference with its bounds.
#include <doctest/doctest.h>

#include <sinter/ir/define.hpp>
#include <sinter/stablehlo.hpp>

#include "../fuzz/draw.hpp"
#include "interpreter.hpp"

namespace {

/// Values of all nodes, loops counted once.
bool is_small(const fuzz::drawn& d) { return fuzz::elements(d.graph, {}) <= 4000; }

struct counts {
  int written = 0, refused = 0;
  fuzz::tally elements;
  std::map<std::string, int> seen;
};

void check(const fuzz::drawn& d, counts& all) {
  std::string text;
  try {
    text = sinter::stablehlo::text(sinter::graph(d.graph));
  } catch (const sinter::user_error& e) {
    const std::string why = e.what();
    INFO("seed ", d.seed, ": ", why);
    CHECK(why.find("these ops have no counterpart in StableHLO: ") != std::string::npos);
    ++all.refused;
    return;
  }
  ++all.written;
  auto bits = d.values();
  std::vector<fuzz::literal_array> values;
  for (const auto id : d.graph.inputs)
    values.push_back(fuzz::random_values(bits, d.graph[id].type, fuzz::extents_of(d.graph[id].extents, {})));
  const fuzz::expected want(d.graph, values, {});
  INFO("seed ", d.seed, "\n", sinter::ir::print(d.graph), text);
  std::vector<fuzz::literal_array> got;
  try {
    got = hlo::results_of(text, values, &all.seen);
  } catch (const std::exception& e) {
    FAIL_CHECK(std::string(e.what()));
    return;
  }
  REQUIRE(got.size() == want.results.size());
  for (std::size_t k = 0; k < got.size(); ++k) CHECK(fuzz::difference(*want.results[k], got[k], all.elements) == "");
}

}  // namespace

TEST_CASE("random graphs are equal as modules") {
  counts all;
  for (std::uint64_t seed = 1; seed <= 700; ++seed)
    if (const auto d = fuzz::draw(seed, false); is_small(d)) check(d, all);
  CHECK(all.written > 100);
  CHECK(all.elements.compared > all.elements.seen / 4);
  for (const char* name : {"dot_general", "gather", "scatter", "sort", "reduce", "pad", "slice", "concatenate"})
    CHECK(all.seen["stablehlo." + std::string(name)] > 0);
  MESSAGE(all.written, " modules, ", all.refused, " refused; ", all.elements.compared, " of ", all.elements.seen,
          " elements compared");
}

TEST_CASE("random branches and loops are equal as modules") {
  counts all;
  for (std::uint64_t seed = 1; seed <= 500; ++seed)
    if (const auto d = fuzz::draw_control(seed, false); is_small(d)) check(d, all);
  CHECK(all.written > 100);
  CHECK(all.elements.compared > all.elements.seen / 4);
  for (const char* name : {"if", "while", "dynamic_slice", "dynamic_update_slice"})
    CHECK(all.seen["stablehlo." + std::string(name)] > 0);
  MESSAGE(all.written, " modules, ", all.refused, " refused; ", all.elements.compared, " of ", all.elements.seen,
          " elements compared");
}
