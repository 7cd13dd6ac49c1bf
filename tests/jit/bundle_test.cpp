// Compiled programs that start from a bundle: another process with an empty cache and no compiler runs them as compiled.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <sinter/sinter.hpp>

#include "../in_process.hpp"
#include "../scratch_folder.hpp"

using namespace sinter;

namespace {

/// A training step with a product, reductions and a scatter, on a device; its report.
report run_step(device where, float unique) {
  const auto step = compile(
      [unique](tensor<float, 2> w, tensor<float, 2> x, tensor<std::int64_t, 1> y) {
        const auto loss = [&](const tensor<float, 2>& p) { return cross_entropy(tanh(matmul(x, p)) * unique, y); };
        const auto [l, g] = value_and_grad(loss)(w);
        return std::tuple{l, tensor<float, 2>(w - 0.1f * g)};
      },
      {.name = "step"});
  const tensor<float, 2> w = 0.3f * normal<float>(make_key(1), 6, 4), x = normal<float>(make_key(2), 5, 6);
  const tensor<std::int64_t, 1> y{0, 3, 1, 2, 2};
  const auto [l, p] = step(w.to(where), x.to(where), y.to(where));
  const auto reference = compile([&](tensor<float, 2> w) { return cross_entropy(tanh(matmul(x, w)) * unique, y); },
                                 {.backend = "reference"});
  CHECK(l.item() == doctest::Approx(reference(w).item()).epsilon(1e-5));
  CHECK(p.to(device{}).to_vector() != w.to_vector());
  return step.report();
}

/// Runs one of the test cases below in a process of its own; `load` names a bundle.
int in_process(const std::string& test_case, const std::string& folder, const std::string& load,
               const std::string& save) {
  const auto set = [](const char* name, const std::string& value) { return std::string(name) + "='" + value + "' "; };
  return ::in_process(test_case,
                      set("SINTER_CACHE_DIR", folder) + set("SINTER_TEST_LOAD", load) + set("SINTER_TEST_SAVE", save));
}

/// What either process does: one compiles and saves; the other has no compiler, loads, and expects compiled code.
void work(device where, const char* backend, const char* compiler_variable) {
  const std::string load = variable("SINTER_TEST_LOAD"), save = variable("SINTER_TEST_SAVE");
  if (!load.empty()) {
    REQUIRE(setenv(compiler_variable, "/nonexistent", 1) == 0);
    CHECK(load_cache(load) > 0);
  }
  const report r = run_step(where, 1.25f);
  CHECK(r.backend == backend);
  CHECK(r.kernels > 1);
  if (load.empty()) CHECK(r.compiled > 0);
  else CHECK(r.compiled == 0);
  if (!save.empty()) CHECK(save_cache(save) >= r.compiled);
  // What the bundle lacks is interpreted, with a warning.
  if (!load.empty()) CHECK(run_step(where, 3.5f).backend == "reference");
}

void two_processes(const std::string& test_case) {
  const scratch_folder a, b, shared;
  const std::string path = shared.path + "/kernels.bundle";
  REQUIRE(in_process(test_case, a.path, "", path) == 0);
  REQUIRE(std::filesystem::exists(path));
  CHECK(in_process(test_case, b.path, path, "") == 0);
}

}  // namespace

TEST_CASE("child: on the host" * doctest::skip()) { work(device{}, "cpu", "SINTER_CXX"); }
TEST_CASE("child: on a GPU" * doctest::skip()) { work(device::cuda(), "cuda", "SINTER_LIBNVRTC"); }

TEST_CASE("a process without a compiler starts from the bundle of another") { two_processes("child: on the host"); }
TEST_CASE("a process without NVRTC starts from the bundle of another") { two_processes("child: on a GPU"); }

TEST_CASE("child: without a compiler nothing is interpreted" * doctest::skip()) {
  CHECK(load_cache(variable("SINTER_TEST_LOAD")) > 0);
  const auto f = compile([](tensor<float, 1> x) { return exp(x) * 0.37f; }, {.name = "f"});
  precompile(f, spec<tensor<float, 1>>{{extent("n", 2, 100)}});
  CHECK(f(tensor<float, 1>{0, 1}).to_vector().size() == 2);
  CHECK(f.report().backend == "cpu");
  CHECK(f(tensor<float, 1>{0, 1, 2, 3}).to_vector().size() == 4);
  const auto g = compile([](tensor<float, 1> x) { return tanh(x) * 0.38f; }, {.name = "g"});
  std::string said;
  try {
    g(tensor<float, 1>{0, 1});
  } catch (const system_error& e) {
    said = e.what();
  }
  for (const char* part : {"1 kernel is neither in the cache nor in a bundle", "tanh", "SINTER_CXX=none", "load_cache"})
    CHECK_MESSAGE(said.find(part) != std::string::npos, said);
}
TEST_CASE("child: kernels of many extents are made ahead" * doctest::skip()) {
  const auto f = compile([](tensor<float, 1> x) { return exp(x) * 0.37f; }, {.name = "f"});
  precompile(f, spec<tensor<float, 1>>{{extent("n", 2, 100)}});
  CHECK(save_cache(variable("SINTER_TEST_SAVE")) > 0);
}
TEST_CASE("SINTER_CXX=none refuses what a bundle lacks, by the names of ops, and interprets nothing") {
  const scratch_folder a, b, shared;
  const std::string path = shared.path + "/kernels.bundle";
  REQUIRE(in_process("child: kernels of many extents are made ahead", a.path, "", path) == 0);
  CHECK(::in_process("child: without a compiler nothing is interpreted",
                     "SINTER_CXX=none SINTER_CACHE_DIR='" + b.path + "' SINTER_TEST_LOAD='" + path + "' ") == 0);
}

TEST_CASE("cache_dir chooses a function's folder; clear_cache empties one") {
  const scratch_folder chosen;
  const auto f = compile([](tensor<float, 1> x) { return exp(x) * 0.71f; }, {.cache_dir = chosen.path});
  const tensor<float, 1> x{1, 2};
  CHECK(f(x).to_vector()[0] == doctest::Approx(std::exp(1.f) * 0.71f));
  CHECK(f.report().compiled == 1);
  const cache_contents before = cache_info(chosen.path);
  CHECK(before.folder == chosen.path);
  CHECK(before.kernels == 1);
  CHECK(before.bytes > 0);
  CHECK(before.bytes < before.limit);
  CHECK(clear_cache(chosen.path) == 1);
  CHECK(cache_info(chosen.path).kernels == 0);
  CHECK(f(x).to_vector()[1] == doctest::Approx(std::exp(2.f) * 0.71f));
}

TEST_CASE("errors of bundles name the call and the line") {
  const scratch_folder folder;
  const std::string path = folder.path + "/none";
  CHECK_THROWS_WITH_AS(load_cache(path), doctest::Contains("[load_cache] "), system_error);
  CHECK_THROWS_WITH_AS(save_cache(folder.path + "/no/such/folder"), doctest::Contains("[save_cache] "), error);
}
