// mode::max_autotune on a GPU: products by the library, by options of the recipe and without, attention likewise: counts and values.
#include <doctest/doctest.h>
#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "../emulator/select.hpp"
#include "tuned.hpp"

using namespace sinter;

namespace {

using matrix = tensor<bf16, 2>;
using four = tensor<bf16, 4>;
const device gpu = device::cuda(0);

const auto multiply = [](const matrix& x, const matrix& w) { return matrix(relu(matmul(x, w))); };
const auto attend = [](const four& q, const four& k, const four& v) { return four(attention(q, k, v, causal)); };

struct operands {
  matrix x = cast<bf16>(normal<float>(make_key(1), 70, 64)), w = cast<bf16>(0.25f * normal<float>(make_key(2), 64, 72));
  four q = cast<bf16>(normal<float>(make_key(4), 1, 2, 70, 16));
};

template <class X>
double distance(const X& a, const X& b) {
  const auto x = a.to(device::cpu()).to_vector(), y = b.to(device::cpu()).to_vector();
  REQUIRE(x.size() == y.size());
  double most = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double p = static_cast<float>(x[i]), q = static_cast<float>(y[i]);
    most = std::max(most, std::fabs(p - q) / (1 + std::fabs(q)));
  }
  return most;
}

const options tune{.mode = mode::max_autotune};
bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

TEST_CASE("a product is measured by the library, by options and without") {
  const scratch_folder folder;
  const environment_value cache("SINTER_CACHE_DIR", folder.path);
  const operands on;
  const auto f = compile(multiply, tune);
  const matrix x = on.x.to(gpu), w = on.w.to(gpu), y = f(x, w);
  const report r = f.report();
  REQUIRE(r.choices.size() == 1);
  const auto names = tuned::names_of(r.choices[0]);
  CHECK(r.measured == names.size());
  CHECK(names.size() >= 3);
  CHECK(has(names, "library"));
  CHECK(has(names, "option 1"));
  CHECK(r.steps.at(0).chosen == names[0]);
  CHECK((r.steps.at(0).tier == "library") == (names[0] == "library"));
  const matrix want = compile(multiply, {.backend = "reference"})(on.x, on.w);
  CHECK(distance(y, want) <= 8e-3);
  // Later calls are recorded.
  CHECK(distance(f(x, w), want) <= 8e-3);
  CHECK(distance(f(x, w), want) <= 8e-3);
  CHECK(explain(f)(x, w).text().find("by measurement") != std::string::npos);
}

TEST_CASE("each way gives the product") {
  const operands on;
  const matrix x = on.x.to(gpu), w = on.w.to(gpu);
  const matrix want = compile(multiply, {.backend = "reference"})(on.x, on.w);
  for (const char* way : {"library", "kernel", "option 0", "option 1", "option 2", "option 5", "option 7", "option 8",
                          "option 9", "option 10", "no such way"}) {
    CAPTURE(way);
    const environment_value forced("SINTER_CANDIDATE", way);
    const auto f = compile(multiply, tune);
    CHECK(distance(f(x, w), want) <= 8e-3);
    CHECK(distance(f(x, w), want) <= 8e-3);
    CHECK(f.report().measured == 0);
    const bool library = std::string(way) == "library" || std::string(way) == "no such way";
    CHECK((f.report().steps.at(0).tier == "library") == library);
  }
}

TEST_CASE("equal layers are one choice and one text") {
  const scratch_folder folder;
  const environment_value cache("SINTER_CACHE_DIR", folder.path);
  const matrix x = cast<bf16>(normal<float>(make_key(1), 66, 64)),
               w = cast<bf16>(0.1f * normal<float>(make_key(2), 64, 64));
  const auto twice = [](const matrix& a, const matrix& b) {
    return matrix(relu(matmul(matrix(relu(matmul(a, b))), b)));
  };
  const matrix want = compile(twice, {.backend = "reference"})(x, w);
  const auto f = compile(twice, tune);
  CHECK(distance(f(x.to(gpu), w.to(gpu)), want) <= 1.6e-2);
  const report r = f.report();
  REQUIRE(r.choices.size() == 1);
  REQUIRE(r.steps.size() == 2);
  for (const auto& k : r.steps) CHECK(k.chosen == r.choices[0].candidates[0].name);
  const environment_value forced("SINTER_CANDIDATE", "option 2");
  const auto g = compile(twice, tune);
  CHECK(distance(g(x.to(gpu), w.to(gpu)), want) <= 1.6e-2);
  CHECK(g.report().sources.size() == 1);
}

TEST_CASE("each way gives attention and its gradient") {
  const operands on;
  const four q = on.q.to(gpu);
  const auto loss = [](const four& x) { return tensor<float, 0>(sum(sin(cast<float>(attend(x, x, x))))); };
  const four want = compile(attend, {.backend = "reference"})(on.q, on.q, on.q);
  const four slope = compile(grad(loss), {.backend = "reference"})(on.q);
  for (const char* way : {"kernels", "composition", "option 0", "option 1", "option 2", "option 5", "option 6"}) {
    CAPTURE(way);
    const environment_value forced("SINTER_CANDIDATE", way);
    const auto f = compile(attend, tune);
    CHECK(distance(f(q, q, q), want) <= 1.6e-2);
    const report r = f.report();
    const bool fused = std::any_of(r.steps.begin(), r.steps.end(), [](const auto& k) { return k.name == "attention"; });
    CHECK(fused == (std::string(way) != "composition"));
    CHECK(distance(four(compile(grad(loss), tune)(q)), slope) <= 4e-2);
  }
}

TEST_CASE("what is deterministic or open measures nothing") {
  const operands on;
  const matrix x = on.x.to(gpu), w = on.w.to(gpu);
  const auto f = compile(multiply, {.mode = mode::max_autotune, .deterministic = true});
  const auto open = compile(multiply, {.mode = mode::max_autotune, .dynamic = dynamic::yes});
  f(x, w);
  open(x, w);
  for (const report& r : {f.report(), open.report()}) {
    CHECK(r.measured == 0);
    CHECK(r.choices.empty());
  }
}

TEST_CASE("child: a product and attention on a GPU" * doctest::skip()) {
  const operands on;
  const auto f = compile(
      [](const matrix& x, const matrix& w, const four& q) {
        return std::pair{multiply(x, w), attend(q, q, q)};
      },
      tune);
  const auto [y, z] = f(on.x.to(gpu), on.w.to(gpu), on.q.to(gpu));
  CHECK(distance(y, matrix(compile(multiply, {.backend = "reference"})(on.x, on.w))) <= 8e-3);
  CHECK(distance(z, four(compile(attend, {.backend = "reference"})(on.q, on.q, on.q))) <= 1.6e-2);
  const report r = f.report();
  tuned::check_expected(r);
  const bool library = variable("SINTER_TEST_LIBRARY") != "none";
  for (const auto& c : r.choices) {
    const auto names = tuned::names_of(c);
    CHECK((has(names, "library") && library) == has(names, "library"));
  }
}

TEST_CASE("another process measures nothing") { tuned::cold_then_warm("child: a product and attention on a GPU"); }

TEST_CASE("without a library the options are measured") {
  const scratch_folder folder;
  const std::string none = "SINTER_LIBCUBLASLT=none SINTER_TEST_LIBRARY=none";
  CHECK(tuned::process("child: a product and attention on a GPU", folder.path + "/cache", "measured", none) == 0);
  CHECK(tuned::process("child: a product and attention on a GPU", folder.path + "/cache", "kept", none) == 0);
}
