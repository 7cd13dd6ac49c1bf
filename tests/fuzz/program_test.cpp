// The whole pipeline on random graphs: memory that was in use before, inputs that may be overwritten.
#include <doctest/doctest.h>

#include <sinter/jit/pipeline.hpp>

#include "draw.hpp"
#include "programs.hpp"

TEST_CASE("random graphs through engine::build, twice, the second time in place") {
  ::setenv("SINTER_COMPILE_TIMEOUT", "280", 0);
  for (std::uint64_t seed = 1; seed < 6; ++seed) {
    std::mt19937_64 bits(seed);
    const auto how = fuzz::small_recipe(bits);
    const auto traced = std::make_shared<sinter::engine::tracer>();
    traced->graph = fuzz::random_graph(bits(), how).graph;
    const sinter::ir::graph graph = traced->graph;
    INFO("seed " << seed << "\n" << sinter::ir::print(graph));
    std::vector<fuzz::literal_array> values;
    std::vector<std::vector<std::int64_t>> strides;
    std::vector<sinter::storage> blocks;
    std::vector<sinter::engine::argument> arguments;
    for (auto id : graph.inputs) {
      const auto& n = graph[id];
      values.push_back(fuzz::random_values(bits, n.type, fuzz::extents_of(n.extents, {})));
      fuzz::layout l = fuzz::row_major_layout(values.back().extents);
      strides.push_back(l.strides);
      const fuzz::operand x(values.back(), l);
      const auto bytes = std::max<std::size_t>(x.memory->size(), 1);
      blocks.push_back(sinter::engine::allocate(bytes));
      std::memcpy(blocks.back().data(), x.memory->data(), x.memory->size());
    }
    for (std::size_t i = 0; i < values.size(); ++i)
      arguments.push_back({blocks[i].data(), &blocks[i], values[i].type, static_cast<int>(strides[i].size()),
                           values[i].extents.data(), strides[i].data()});
    const auto want = fuzz::evaluate(graph, values, {});
    const auto program = sinter::engine::build(traced, arguments, {});
    CHECK(program->describe().backend == "cpu");
    for (const bool in_place : {false, true}) {
      for (std::size_t bytes : {64u, 256u, 1024u, 4096u, 16384u, 65536u}) {
        std::vector<sinter::storage> used;
        for (int i = 0; i < 8; ++i) used.push_back(sinter::engine::allocate(bytes));
        for (auto& b : used) std::memset(b.data(), 0xff, b.bytes());
      }
      std::vector<sinter::engine::output> results(program->output_count());
      const std::vector<std::uint8_t> donate(arguments.size(), in_place);
      program->run(arguments, donate, results.data());
      std::size_t compared = 0, seen = 0;
      for (std::size_t k = 0; k < results.size(); ++k) {
        INFO("result " << k);
        CHECK(std::vector<std::int64_t>(results[k].extents, results[k].extents + results[k].rank) ==
              want[graph.outputs[k]].value.extents);
        CHECK(fuzz::difference(want[graph.outputs[k]], static_cast<const unsigned char*>(results[k].memory.data()),
                               compared, seen) == "");
      }
    }
  }
}
