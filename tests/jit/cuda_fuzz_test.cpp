// Random graphs planned, printed, built and run for a GPU, against the reference with bounds on every element.
// SINTER_FUZZ_SEED sets the first seed, SINTER_FUZZ_CUDA how many graphs of each kind there are.
#include <doctest/doctest.h>

#include <sinter/jit.hpp>

#include "kernels.hpp"

namespace {

using sinter::ir::dim;

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* s = std::getenv(name);
  return s != nullptr && *s != '\0' ? std::strtoull(s, nullptr, 10) : otherwise;
}

fuzz::recipe small(std::mt19937_64& bits) {
  static const std::int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 70, 256};
  fuzz::recipe r;
  for (int i = 0; i < 3; ++i) r.theme.push_back(sizes[bits() % std::size(sizes)]);
  if (bits() % 12 == 0) r.theme.push_back(0);
  return r;
}

/// Rows in registers and in loops, rows over several blocks, columns, walks.
fuzz::recipe large(std::mt19937_64& bits) {
  static const std::vector<dim> themes[] = {{4000, 2},     {257, 300},    {3, 20000}, {130, 2, 131}, {70001},
                                            {32, 1024, 2}, {2, 3, 16384}, {5000, 17}, {65536},       {64, 1200}};
  fuzz::recipe r;
  r.theme = themes[bits() % std::size(themes)];
  r.most_elements = 100000;
  r.steps = 8;
  return r;
}

/// Memory on the GPU with marks around it.
struct device_block {
  static constexpr std::size_t guard = 256;
  sinter::storage memory;
  std::size_t bytes = 0;

  explicit device_block(std::size_t n) : memory(sinter::engine::allocate(n + 2 * guard, gpu())), bytes(n) {
    fill(std::vector<unsigned char>(n, 0xff));
  }
  static sinter::device gpu() { return sinter::device::cuda(0); }
  unsigned char* data() const { return static_cast<unsigned char*>(memory.data()) + guard; }
  void fill(const std::vector<unsigned char>& content) {
    std::vector<unsigned char> all(bytes + 2 * guard, 0x5a);
    std::copy(content.begin(), content.end(), all.begin() + guard);
    sinter::engine::copy(memory.data(), gpu(), all.data(), {}, all.size());
  }
  std::vector<unsigned char> read() const {
    std::vector<unsigned char> all(bytes + 2 * guard);
    sinter::engine::copy(all.data(), {}, memory.data(), gpu(), all.size());
    bool intact = true;
    for (std::size_t i = 0; i < guard; ++i) intact = intact && all[i] == 0x5a && all[all.size() - 1 - i] == 0x5a;
    CHECK(intact);
    return {all.begin() + guard, all.end() - guard};
  }
};

template <class Recipe>
void fuzz_device(const std::string& what, std::uint64_t count, Recipe&& recipe) {
  const std::uint64_t first = setting("SINTER_FUZZ_SEED", 1), many = setting("SINTER_FUZZ_CUDA", count);
  ::setenv("SINTER_COMPILE_TIMEOUT", "280", 0);
  std::size_t compared = 0, seen = 0;
  for (std::uint64_t seed = first; seed < first + many; ++seed) {
    std::mt19937_64 bits(seed);
    const auto how = recipe(bits);
    const auto traced = std::make_shared<sinter::engine::tracer>();
    traced->graph = fuzz::random_graph(bits(), how).graph;
    const sinter::ir::graph graph = traced->graph;
    INFO(what << " seed " << seed << "\n" << sinter::ir::print(graph));
    std::vector<fuzz::literal_array> values;
    std::vector<fuzz::layout> layouts;
    std::vector<device_block> blocks;
    std::vector<sinter::engine::argument> arguments;
    for (auto id : graph.inputs) {
      const auto& n = graph[id];
      const auto extents = fuzz::extents_of(n.extents, {});
      values.push_back(fuzz::random_values(bits, n.type, extents));
      layouts.push_back(fuzz::random_layout(bits, extents));
      const fuzz::operand x(values.back(), layouts.back());
      blocks.emplace_back(x.memory->size());
      blocks.back().fill({x.memory->data(), x.memory->data() + x.memory->size()});
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool empty = blocks[i].bytes == 0;
      const auto size = static_cast<std::int64_t>(sinter::size_of(values[i].type));
      arguments.push_back({blocks[i].data() - (empty ? 0 : layouts[i].low * size), &blocks[i].memory, values[i].type,
                           static_cast<int>(layouts[i].strides.size()), values[i].extents.data(),
                           layouts[i].strides.data()});
    }
    const auto want = fuzz::evaluate(graph, values, {});
    sinter::options options;
    options.deterministic = seed % 2 == 0;
    const auto program = sinter::engine::build(traced, arguments, options);
    CHECK(program->describe().backend == "cuda");
    std::vector<sinter::engine::output> results(program->output_count());
    program->run(arguments, std::vector<std::uint8_t>(arguments.size()), results.data());
    for (std::size_t k = 0; k < results.size(); ++k) {
      INFO("result " << k << " (%" << graph.outputs[k] << ")");
      const auto& x = want[graph.outputs[k]];
      CHECK(std::vector<std::int64_t>(results[k].extents, results[k].extents + results[k].rank) == x.value.extents);
      std::vector<unsigned char> got(x.bound.size() * sinter::size_of(x.value.type));
      sinter::engine::copy(got.data(), {}, results[k].memory.data(), device_block::gpu(), got.size());
      CHECK(fuzz::difference(x, got.data(), compared, seen) == "");
    }
    for (const auto& b : blocks) b.read();
  }
  MESSAGE(what << ": " << compared << " of " << seen << " elements compared");
  CHECK(compared > seen / 2);
}

}  // namespace

TEST_CASE("random small graphs on a GPU") { fuzz_device("small", 12, small); }
TEST_CASE("random large graphs on a GPU") { fuzz_device("large", 6, large); }
