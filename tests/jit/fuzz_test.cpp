// Random graphs, compiled and run, against the reference with bounds on every element.
// SINTER_FUZZ_SEED sets the first seed, SINTER_FUZZ_COUNT how many graphs of each kind there are.
#include <doctest/doctest.h>

#include <sinter/jit.hpp>

#include "kernels.hpp"

namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* s = std::getenv(name);
  return s != nullptr && *s != '\0' ? std::strtoull(s, nullptr, 10) : otherwise;
}

using sinter::ir::dim;

fuzz::recipe small(std::mt19937_64& bits) {
  static const std::int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 70};
  fuzz::recipe r;
  for (int i = 0; i < 3; ++i) r.theme.push_back(sizes[bits() % std::size(sizes)]);
  if (bits() % 12 == 0) r.theme.push_back(0);
  return r;
}

/// Enough elements for blocks, chunks and threads.
fuzz::recipe large(std::mt19937_64& bits) {
  static const std::vector<dim> themes[] = {{40000, 2},    {257, 300},    {3, 20000}, {130, 2, 131}, {70001},
                                            {32, 1024, 2}, {2, 3, 16384}, {5000, 17}, {65536}};
  fuzz::recipe r;
  r.theme = themes[bits() % std::size(themes)];
  r.most_elements = 100000;
  r.steps = 8;
  return r;
}

fuzz::recipe symbolic(std::mt19937_64& bits) {
  fuzz::recipe r;
  r.theme = {dim::symbol(0), dim::symbol(1), static_cast<std::int64_t>(1 + bits() % 9)};
  r.hints = {5 + static_cast<std::int64_t>(bits() % 20), 17};
  r.steps = 10;
  return r;
}

struct item {
  std::uint64_t seed;
  fuzz::planned code;
};

std::string kernels_of(const fuzz::planned& p) {
  std::string text;
  for (const auto& s : p.sources) text += s.text.substr(s.text.find("extern \"C\" void sinter_kernel"));
  return text;
}

/// Compiles each graph by itself, to name the one at fault.
void report_uncompilable(const std::string& what, std::vector<item>& items) {
  for (auto& i : items) {
    fuzz::batch alone;
    try {
      alone.add(i.code);
      alone.build();
    } catch (const std::exception& e) {
      FAIL_CHECK(what << " seed " << i.seed << ": " << std::string(e.what()) << "\n"
                      << sinter::ir::print(i.code.graph) << kernels_of(i.code));
      return;
    }
  }
}

template <class Recipe>
void fuzz_kernels(const std::string& what, std::uint64_t count, Recipe&& recipe, bool symbols) {
  const std::uint64_t first = setting("SINTER_FUZZ_SEED", 1), many = setting("SINTER_FUZZ_COUNT", count);
  ::setenv("SINTER_COMPILE_TIMEOUT", "280", 0);  // a dozen kernels a text, on a busy machine
  fuzz::tally tally;
  for (std::uint64_t done = 0; done < many; done += 100) {
    fuzz::batch batch;
    std::vector<item> items;
    for (std::uint64_t seed = first + done; seed < first + std::min(done + 100, many); ++seed) {
      std::mt19937_64 bits(seed);
      const auto how = recipe(bits);
      fuzz::random_graph made(bits(), how);
      INFO(what << " seed " << seed << "\n" << sinter::ir::print(made.graph));
      try {
        items.push_back({seed, fuzz::plan_graph(made.graph, bits, how.hints)});
        batch.add(items.back().code);
      } catch (const std::exception& e) {
        FAIL_CHECK(std::string(e.what()));
        items.erase(items.end() - (items.size() > 0 && items.back().seed == seed), items.end());
      }
    }
    try {
      batch.build();
    } catch (const std::exception& e) {
      report_uncompilable(what, items);
      FAIL(what << " seeds " << first + done << " and on do not compile: " << std::string(e.what()));
    }
    for (auto& i : items) {
      std::mt19937_64 bits(i.seed + 1);
      for (int again = 0; again < (symbols ? 3 : 2); ++again) {
        std::vector<std::int64_t> sizes;
        if (symbols) sizes = {2 + static_cast<std::int64_t>(bits() % 40), 2 + static_cast<std::int64_t>(bits() % 33)};
        const std::string why = fuzz::run(i.code, batch, bits, sizes, tally);
        if (why.empty()) continue;
        FAIL_CHECK(what << " seed " << i.seed << ": " << why << "\n"
                        << sinter::ir::print(i.code.graph) << kernels_of(i.code));
        break;
      }
    }
  }
  MESSAGE(what << ": " << tally.compared << " of " << tally.seen << " elements compared; " << tally.unfused
               << " ops in " << tally.kernels << " kernels");
  CHECK(tally.compared > tally.seen / 2);
}

}  // namespace

// The whole pipeline: rewrites, memory in use before, inputs that may be overwritten.
TEST_CASE("random graphs through engine::build, twice, the second time in place") {
  const std::uint64_t first = setting("SINTER_FUZZ_SEED", 1), many = setting("SINTER_FUZZ_BUILDS", 5);
  ::setenv("SINTER_COMPILE_TIMEOUT", "280", 0);
  for (std::uint64_t seed = first; seed < first + many; ++seed) {
    std::mt19937_64 bits(seed);
    const auto how = small(bits);
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

TEST_CASE("random small graphs") { fuzz_kernels("small", 100, small, false); }
TEST_CASE("random graphs with symbolic extents") { fuzz_kernels("symbolic", 40, symbolic, true); }
TEST_CASE("random large graphs") { fuzz_kernels("large", 20, large, false); }
