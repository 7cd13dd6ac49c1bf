// Warm starts: another process finds a program as it was planned, on the host and on a GPU, and neither rewrites nor plans.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sinter/sinter.hpp>

#include "../in_process.hpp"
#include "../scratch_folder.hpp"

using namespace sinter;
namespace fs = std::filesystem;

namespace {

struct block {
  tensor<float, 1> scale, shift;
  tensor<float, 2> w;
  tensor<float, 1> b;
};

std::vector<block> make_blocks(int depth, device where) {
  std::vector<block> out;
  for (const auto& k : split(make_key(7), depth)) {
    const auto each = split(k, 3);
    block one{1.f + 0.1f * normal<float>(each[0], 12), 0.1f * normal<float>(each[1], 12),
              0.3f * normal<float>(each[2], 12, 12), full<float>(0.25f, 12)};
    out.push_back(tree_map([&](auto x) { return x.to(where); }, one));
  }
  return out;
}

/// A training step of a residual network, of about 60 nodes a block.
auto training_step(const options& how) {
  return compile(
      [](const std::vector<block>& p, const tensor<float, 2>& x) {
        const auto loss = [&](const std::vector<block>& p) {
          tensor<float, 2> h = x;
          for (const block& b : p) h = h + tanh(matmul(layer_norm(h, b.scale, b.shift), b.w) + b.b);
          return mean(h * h);
        };
        const auto [l, g] = value_and_grad(loss)(p);
        return std::tuple{l, tree_map([](auto p, auto g) { return p - 0.1f * g; }, p, g)};
      },
      how);
}

bool has_stage(const report& r, const char* name) {
  return std::any_of(r.stages.begin(), r.stages.end(), [&](const stage_report& s) { return s.name == name; });
}

void append(std::string& to, const std::vector<float>& values) {
  to.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

/// The bytes of all results, and what is said of the kernels.
std::string all_of(const report& r, const tensor<float, 0>& l, const std::vector<block>& p) {
  std::string out;
  for (const kernel_report& k : r.steps) {
    out += k.name + k.space + std::to_string(k.read) + " " + std::to_string(k.written) + " " + std::to_string(k.flops);
    for (const op_report& o : k.ops) out += " " + o.name + ":" + std::to_string(o.where.line);
    out += "\n" + (k.source < 0 ? "" : r.sources.at(static_cast<std::size_t>(k.source)));
  }
  append(out, l.to_vector());
  for (const block& b : p) {
    append(out, b.scale.to_vector());
    append(out, b.w.to_vector());
    append(out, b.b.to_vector());
  }
  return out;
}

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// What every process does. The first writes what it found; others are to find the same, as they are told: "plan" or "read".
void work(device where, const options& how) {
  const std::string folder = variable("SINTER_CACHE_DIR") + "/..", expected = variable("SINTER_TEST_EXPECT");
  const auto step = training_step(how);
  const auto x = normal<float>(make_key(3), 5, 12).to(where);
  auto p = make_blocks(6, where);
  const auto [l, q] = step(p, x);
  const report r = step.report();
  if (expected == "reference") {
    CHECK(r.backend == "reference");
    CHECK(std::isfinite(l.item()));
    return;
  }
  CHECK(r.backend == (where.is_cuda() ? "cuda" : "cpu"));
  CHECK(has_stage(r, "plan") == (expected == "plan"));
  CHECK(has_stage(r, "rewrite") == (expected == "plan"));
  CHECK(has_stage(r, "read") == (expected == "read"));
  CHECK(r.nodes_traced >= 200);
  CHECK(!r.graph.empty());
  for (const kernel_report& k : r.steps) CHECK((k.source >= 0) == (k.tier != "library"));
  const std::string found = all_of(r, l, q), path = folder + "/expected";
  if (fs::exists(path)) CHECK(found == read(path));
  else std::ofstream(path, std::ios::binary) << found;
  // Reasons are worked out when they are asked for.
  const auto explained = step.explain();
  std::string apart;
  for (const apart_report& a : explained.specialisations.at(0).what.apart)
    apart += std::to_string(a.first) + " " + std::to_string(a.second) + " " + a.why + "\n";
  const std::string reasons = folder + "/reasons";
  CHECK(!apart.empty());
  if (fs::exists(reasons)) CHECK(apart == read(reasons));
  else std::ofstream(reasons, std::ios::binary) << apart;
  // A second call, whose results replace what is given away.
  const auto [again, unused] = step(q, x);
  CHECK(again.item() < l.item());
}

int in_process(const std::string& test_case, const std::string& cache, const std::string& expected,
               const std::string& more = "", const std::string& program = this_program()) {
  const auto set = [](const char* name, const std::string& value) { return std::string(name) + "='" + value + "' "; };
  return in_program(program, test_case, set("SINTER_CACHE_DIR", cache) + set("SINTER_TEST_EXPECT", expected) + more);
}

std::vector<std::string> files(const std::string& folder, const std::string& end) {
  std::vector<std::string> out;
  for (const auto& f : fs::directory_iterator(folder))
    if (f.path().string().ends_with(end)) out.push_back(f.path().string());
  return out;
}

void cold_then_warm(const std::string& child) {
  const scratch_folder folder;
  const std::string cache = folder.path + "/cache";
  REQUIRE(in_process(child, cache, "plan") == 0);
  REQUIRE(files(cache, ".plan").size() == 1);
  CHECK(in_process(child, cache, "read") == 0);
  // Kernels that have left are compiled again.
  for (const auto& f : files(cache, ".kernel")) fs::remove(f);
  // Where they cannot be, the interpreter answers, as without a plan.
  const std::string none = "/nonexistent/compiler' ";
  CHECK(in_process(child, cache, "reference", "SINTER_CXX='" + none + "SINTER_LIBNVRTC='" + none) == 0);
  CHECK(in_process(child, cache, "read") == 0);
  CHECK(in_process(child, cache, "read") == 0);
}

}  // namespace

TEST_CASE("warm start: on the host" * doctest::skip()) { work(device{}, {.name = "step"}); }
TEST_CASE("warm start: on a GPU" * doctest::skip()) { work(device::cuda(), {.name = "step"}); }
TEST_CASE("warm start: recorded" * doctest::skip()) {
  work(device::cuda(), {.mode = mode::reduce_overhead, .name = "step"});
}
TEST_CASE("warm start: open sizes" * doctest::skip()) { work(device{}, {.dynamic = dynamic::yes, .name = "step"}); }

TEST_CASE("a process that meets a graph again does not plan it") { cold_then_warm("warm start: on the host"); }
TEST_CASE("a process that meets a graph again does not plan it, on a GPU") { cold_then_warm("warm start: on a GPU"); }
TEST_CASE("a process that meets a graph again does not plan it, recorded") { cold_then_warm("warm start: recorded"); }

TEST_CASE("a plan is of a build, not of a file's size and time") {
  const scratch_folder folder;
  const std::string cache = folder.path + "/cache", child = "warm start: on the host";
  REQUIRE(in_process(child, cache, "plan") == 0);
  const std::string whole = read(this_program());
  const auto copy = [&](const char* name, const std::string& bytes) {
    const std::string path = folder.path + "/" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    fs::permissions(path, fs::perms::owner_all);
    return path;
  };
  // The same build at another time.
  const std::string same = copy("same", whole);
  fs::last_write_time(same, fs::last_write_time(this_program()) + std::chrono::hours(1));
  CHECK(in_process(child, cache, "read", "", same) == 0);
  // Another build of the same size and time.
  const std::string note("\4\0\0\0\x14\0\0\0\3\0\0\0GNU\0", 16);
  const std::size_t at = whole.find(note);
  if (at == std::string::npos) {
    MESSAGE("the linker writes no build-id of 20 bytes: not tested");
    return;
  }
  std::string changed = whole;
  changed[at + note.size()] = static_cast<char>(changed[at + note.size()] ^ 1);
  const std::string other = copy("other", changed);
  fs::last_write_time(other, fs::last_write_time(this_program()));
  CHECK(in_process(child, cache, "plan", "", other) == 0);
  CHECK(in_process(child, cache, "read", "", other) == 0);
  CHECK(in_process(child, cache, "read") == 0);
}

TEST_CASE("plans that are damaged, of open sizes or of other threads are made anew") {
  const scratch_folder folder;
  const std::string cache = folder.path + "/cache";
  REQUIRE(in_process("warm start: on the host", cache, "plan") == 0);
  const std::string plan = files(cache, ".plan").at(0);
  fs::resize_file(plan, fs::file_size(plan) - 1);
  CHECK(in_process("warm start: on the host", cache, "plan", "2>'" + folder.path + "/said' ") == 0);
  CHECK(read(folder.path + "/said").find(".plan is truncated; it is planned again") != std::string::npos);
  CHECK(in_process("warm start: on the host", cache, "read") == 0);
  CHECK(in_process("warm start: on the host", cache, "plan", "OMP_NUM_THREADS=77 ") == 0);
  CHECK(files(cache, ".plan").size() == 2);
  fs::remove(folder.path + "/expected");
  fs::remove(folder.path + "/reasons");
  CHECK(in_process("warm start: open sizes", cache, "plan") == 0);
  CHECK(in_process("warm start: open sizes", cache, "plan") == 0);
}

TEST_CASE("what is saved grows with the graph") {
  const auto bytes = [](int depth) {
    const scratch_folder folder;
    const auto step = training_step({.cache_dir = folder.path});
    step(make_blocks(depth, device{}), full<float>(0.5f, 6, 12));
    const auto plans = files(folder.path, ".plan");
    REQUIRE(plans.size() == 1);
    return fs::file_size(plans[0]);
  };
  CHECK(bytes(32) <= 4.2 * static_cast<double>(bytes(8)));
}

TEST_CASE("small graphs are planned, not read") {
  const scratch_folder folder;
  const auto f = compile([](tensor<float, 1> x) { return exp(x) * 0.37f; }, {.cache_dir = folder.path});
  f(tensor<float, 1>{1, 2});
  CHECK(files(folder.path, ".plan").empty());
  CHECK(files(folder.path, ".kernel").size() == 1);
}
