// SINTER_LOGS: what each channel prints, by this program run again.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../texts.hpp"

using namespace sinter;
using texts::contains;

namespace {

/// What the logged program prints to stderr with these channels, in the last of several runs with one cache.
std::string logged(const std::string& channels, int runs = 1) {
  std::string path = "/tmp/sinter-logs-XXXXXX";
  REQUIRE(::mkdtemp(path.data()) != nullptr);
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = "SINTER_LOGS=" + channels + " SINTER_CACHE_DIR=" + path + "/cache " + program +
                              " --no-skip -tc='the logged program' >/dev/null 2>" + path + "/log";
  for (int i = 0; i < runs; ++i) CHECK(std::system(command.c_str()) == 0);
  std::ifstream in(path + "/log");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove_all(path);
  return text;
}

/// True when every line that begins a message is of this channel.
bool only(const std::string& text, const std::string& channel) {
  for (auto at = text.find("[sinter:"); at != std::string::npos; at = text.find("[sinter:", at + 1))
    if (text.compare(at + 8, channel.size() + 1, channel + "]") != 0) return false;
  return contains(text, "[sinter:" + channel + "]");
}

}  // namespace

TEST_CASE("the logged program" * doctest::skip()) {
  const auto fn = [](tensor<float, 2> x) { return softmax(exp(x) * 1.0f, axis<1>); };
  const auto f = compile(fn, {.dynamic = dynamic::no, .name = "logged"});
  f(ones<float>(4, 8));
  f(ones<float>(5, 8));
  const auto g = compile(
      [](tensor<float, 1> x) -> tensor<float, 1> {
        if (sum(x).item() > 0) return x + 1;
        return x * 2;
      },
      {.name = "branching"});
  g(ones<float>(4));
  const auto h = compile(
      [&](tensor<float, 2> x, tensor<float, 1> y) {
        return std::pair{fn(x), sum(y)};
      },
      {.dynamic = dynamic::no, .name = "logged"});
  h(ones<float>(4, 8), ones<float>(3));
  const auto named = compile([](tensor<float, 1> x) -> tensor<float, 1> { return x * sum(x).item(); },
                             {.name = "a\x1b[31m\n[x] \x7f\xc2\x9b b\u00e9"});
  named(ones<float>(4));
}

TEST_CASE("names are printed without their control characters") {
  const std::string text = logged("all");
  for (const unsigned char c : text) CHECK((c == '\n' || c == '\t' || (c >= 0x20 && c != 0x7f)));
  CHECK(!contains(text, "\xc2\x9b"));
  for (const char* channel : {"recompiles", "graph_breaks", "perf"})
    if (const auto at = text.find(std::string("[sinter:") + channel + "] a\\x1b[31m\\n[x] \\x7f\\x9b b\u00e9"); true)
      CHECK_MESSAGE(at != std::string::npos, channel);
}

TEST_CASE("guards: what a specialisation assumes") {
  const std::string text = logged("guards");
  INFO(text);
  CHECK(only(text, "guards"));
  CHECK(contains(text, "[sinter:guards] logged:\n"));
  CHECK(contains(text, "(4, 8)"));
}

TEST_CASE("recompiles: why a specialisation is made") {
  const std::string text = logged("recompiles");
  INFO(text);
  CHECK(only(text, "recompiles"));
  CHECK(contains(text, "[sinter:recompiles] logged: the first call"));
  CHECK(contains(text, "argument 0 axis 0 is 5, was 4"));
  CHECK(contains(text, "[sinter:recompiles] branching: a segment between graph breaks is made for extents (4), of "));
}

TEST_CASE("graph_breaks: which read ended a graph, and where") {
  const std::string text = logged("graph_breaks");
  INFO(text);
  CHECK(only(text, "graph_breaks"));
  CHECK(contains(text, "[sinter:graph_breaks] branching: "));
  CHECK(contains(text, "logs_test.cpp:"));
}

TEST_CASE("graph: the graph as traced and as rewritten") {
  const std::string text = logged("graph");
  INFO(text);
  CHECK(only(text, "graph"));
  CHECK(contains(text, "[sinter:graph] after trace\n%0 = f32(4, 8) input 0\n"));
  CHECK(contains(text, "[sinter:graph] after rewrite\n"));
}

TEST_CASE("rewrite: which rules fired") {
  const std::string text = logged("rewrite");
  INFO(text);
  CHECK(only(text, "rewrite"));
  CHECK(contains(text, "rules:"));
}

TEST_CASE("fusion: what became one kernel, and what did not") {
  const std::string text = logged("fusion");
  INFO(text);
  CHECK(only(text, "fusion"));
  CHECK(contains(text, "ops in 1 kernels\n  kernel 0: exp reduce_maximum"));
}

TEST_CASE("schedule: roles of axes, and the pass of each value") {
  const std::string text = logged("schedule");
  INFO(text);
  CHECK(only(text, "schedule"));
  CHECK(contains(text, "[sinter:schedule] exp reduce_maximum"));
  CHECK(contains(text, "\n  i0 outer 4\n  i1 inner 8\n  3 passes\n"));
  CHECK(contains(text, "within a row; after 1 pass\n"));
}

TEST_CASE("schedule and loops: the steps of the recipe that takes a kernel, and the tree") {
  const std::string steps = logged("schedule");
  INFO(steps);
  CHECK(contains(steps, "\nrows\n  bind p0 grid\n  split p1 by 4 guard\n"));
  const std::string text = logged("loops");
  INFO(text);
  CHECK(only(text, "loops"));
  CHECK(contains(text, "[sinter:loops] exp reduce_maximum"));
  CHECK(contains(text, "\nlaunch\n  for i0.0 of 4 grid\n"));
}

TEST_CASE("output_code: the kernels' text") {
  const std::string text = logged("output_code");
  CHECK(only(text, "output_code"));
  CHECK(contains(text, "extern \"C\" void sinter_kernel("));
}

TEST_CASE("cache: what was found, and where, and what was not") {
  const std::string text = logged("cache");
  INFO(text);
  CHECK(only(text, "cache"));
  CHECK(contains(text, "[sinter:cache] miss "));
  CHECK(contains(text, " in memory\n"));  // a kernel of another function
  const std::string again = logged("cache", 2);
  CHECK(!contains(again, "miss"));
  CHECK(contains(again, "/cache\n"));
}

TEST_CASE("perf: what compilation took") {
  const std::string text = logged("perf");
  INFO(text);
  CHECK(only(text, "perf"));
  CHECK(contains(text, "[sinter:perf] logged: "));
  CHECK(contains(text, " ms"));
}

TEST_CASE("several channels, all of them, none; a word that is no channel is told once with the list") {
  const std::string two = logged("perf,guards");
  CHECK(contains(two, "[sinter:perf]"));
  CHECK(contains(two, "[sinter:guards]"));
  CHECK(!contains(two, "[sinter:cache]"));
  CHECK(!contains(two, "[sinter:warning]"));
  const std::string all = logged("all");
  for (const char* channel :
       {"guards", "recompiles", "graph_breaks", "graph", "rewrite", "fusion", "loops", "output_code", "cache", "perf"})
    CHECK_MESSAGE(contains(all, std::string("[sinter:") + channel + "]"), channel);
  CHECK(logged("").empty());
  const std::string wrong = logged("gaurds,perf");
  const std::string warning = "[sinter:warning] SINTER_LOGS names 'gaurds', which is no channel; there are guards, ";
  REQUIRE(contains(wrong, warning));
  CHECK(wrong.find(warning, wrong.find(warning) + 1) == std::string::npos);
  CHECK(contains(wrong, "[sinter:perf]"));
}
