// mode::max_autotune on the host: products by gemm or by the tree of a recipe, attention as kernels or composed: counts and values.
#include <doctest/doctest.h>
#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tuned.hpp"

using namespace sinter;

namespace {

using matrix = tensor<float, 2>;
using four = tensor<float, 4>;

const auto layer = [](const matrix& x, const matrix& w, const tensor<float, 1>& b) {
  return matrix(relu(matmul(x, w) + b));
};
const auto attend = [](const four& q, const four& k, const four& v) { return four(attention(q, k, v, causal)); };
const auto attend_all = [](const four& q, const four& k, const four& v) { return four(attention(q, k, v)); };

struct operands {
  matrix x = normal<float>(make_key(1), 48, 260), w = 0.1f * normal<float>(make_key(2), 260, 300);
  tensor<float, 1> b = normal<float>(make_key(3), 300);
  four q = normal<float>(make_key(4), 1, 2, 130, 16);
};

template <class X>
double distance(const X& a, const X& b) {
  const auto x = a.to_vector(), y = b.to_vector();
  REQUIRE(x.size() == y.size());
  double most = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    most = std::max(most, std::fabs(static_cast<double>(x[i]) - static_cast<double>(y[i])) /
                              (1 + std::fabs(static_cast<double>(y[i]))));
  return most;
}

const options tune{.mode = mode::max_autotune};

}  // namespace

TEST_CASE("a product is measured by gemm and by trees, once") {
  const scratch_folder folder;
  const environment_value cache("SINTER_CACHE_DIR", folder.path);
  const operands on;
  const auto f = compile(layer, tune);
  const matrix y = f(on.x, on.w, on.b);
  const report r = f.report();
  REQUIRE(r.choices.size() == 1);
  const choice_report& c = r.choices[0];
  CHECK(r.measured == c.candidates.size());
  CHECK(c.candidates.size() >= 2);
  CHECK(!c.kept);
  CHECK(c.step == 0);
  CHECK(r.steps.at(0).chosen == c.candidates[0].name);
  const auto names = tuned::names_of(c);
  CHECK(std::count(names.begin(), names.end(), "kernel") == 1);
  for (const auto& w : c.candidates) CHECK(w.microseconds > 0);
  CHECK(distance(y, matrix(compile(layer, {.backend = "reference"})(on.x, on.w, on.b))) <= 1e-5);
  const std::string text = explain(f)(on.x, on.w, on.b).text();
  CHECK(text.find("chosen: " + c.candidates[0].name + ", by measurement") != std::string::npos);
  CHECK(text.find("kernel 0 (" + c.what + "): " + c.candidates[0].name + ", ") != std::string::npos);
  // Another function with the same kernel measures nothing.
  const auto g = compile(
      [](const matrix& a, const matrix& w, const tensor<float, 1>& b) {
        return std::pair{matrix(relu(matmul(a, w) + b)), matrix(exp(a))};
      },
      tune);
  g(on.x, on.w, on.b);
  CHECK(g.report().measured == 0);
  REQUIRE(g.report().choices.size() == 1);
  CHECK(g.report().choices[0].kept);
}

TEST_CASE("each way gives the product") {
  const operands on;
  const matrix want = compile(layer, {.backend = "reference"})(on.x, on.w, on.b);
  std::vector<std::string> texts;
  for (const char* way : {"kernel", "option 0", "option 1", "option 2", "option 3", "no such way"}) {
    CAPTURE(way);
    const environment_value forced("SINTER_CANDIDATE", way);
    const auto f = compile(layer, tune);
    CHECK(distance(matrix(f(on.x, on.w, on.b)), want) <= 1e-5);
    CHECK(f.report().measured == 0);
    texts.push_back(f.report().sources.at(0));
  }
  CHECK(texts.front() == texts.back());
  std::sort(texts.begin(), texts.end());
  CHECK(std::unique(texts.begin(), texts.end()) - texts.begin() >= 3);
}

TEST_CASE("attention is measured as kernels, in their options, and composed") {
  const scratch_folder folder;
  const environment_value cache("SINTER_CACHE_DIR", folder.path);
  const operands on;
  const auto of = [](const report& r, const std::string& what, bool op) {
    return std::count_if(r.choices.begin(), r.choices.end(),
                         [&](const choice_report& c) { return c.what == what && (c.step < 0) == op; });
  };
  const auto f = compile(attend, tune);
  const four y = f(on.q, on.q, on.q);
  CHECK(distance(y, four(compile(attend, {.backend = "reference"})(on.q, on.q, on.q))) <= 2e-5);
  CHECK(of(f.report(), "attention", true) >= 1);
  CHECK(f.report().measured >= 4);
  // What rules would compose is measured, too.
  const auto g = compile(attend_all, tune);
  g(on.q, on.q, on.q);
  CHECK(of(g.report(), "attention", true) >= 1);
  const environment_value forced("SINTER_CANDIDATE", "kernels");
  const auto h = compile(attend_all, tune);
  CHECK(distance(four(h(on.q, on.q, on.q)), four(compile(attend_all, {.backend = "reference"})(on.q, on.q, on.q))) <=
        2e-5);
  CHECK(h.report().steps.size() == 1);
  CHECK(explain(h)(on.q, on.q, on.q).specialisations.at(0).what.attention.empty());
}

TEST_CASE("equal layers are one choice, also in a loop") {
  const scratch_folder folder;
  const environment_value cache("SINTER_CACHE_DIR", folder.path);
  const matrix x = normal<float>(make_key(1), 50, 270), w = 0.05f * normal<float>(make_key(2), 270, 270);
  const auto twice = [](const matrix& a, const matrix& b) {
    return matrix(tanh(matmul(matrix(tanh(matmul(a, b))), b)));
  };
  const auto f = compile(twice, tune);
  CHECK(distance(f(x, w), compile(twice, {.backend = "reference"})(x, w)) <= 1e-4);
  const report r = f.report();
  REQUIRE(r.choices.size() == 1);
  REQUIRE(r.steps.size() == 2);
  for (const auto& k : r.steps) CHECK(k.chosen == r.choices[0].candidates[0].name);
  const auto loop = [](const matrix& a, const matrix& b) {
    return matrix(fori_loop(
        0, 3, [&](auto, const matrix& y) { return matrix(cos(matmul(y, b))); }, a));
  };
  const auto g = compile(loop, tune);
  CHECK(distance(g(x, w), compile(loop, {.backend = "reference"})(x, w)) <= 1e-4);
  const report inside = g.report();
  REQUIRE(inside.choices.size() == 1);
  CHECK(inside.measured == inside.choices[0].candidates.size());
  CHECK(inside.steps.at(static_cast<std::size_t>(inside.choices[0].step)).name.find("dot") != std::string::npos);
}

TEST_CASE("each way gives attention") {
  const operands on;
  const four want = compile(attend, {.backend = "reference"})(on.q, on.q, on.q);
  for (const char* way : {"kernels", "composition", "option 0", "option 1", "option 2"}) {
    CAPTURE(way);
    const environment_value forced("SINTER_CANDIDATE", way);
    const auto f = compile(attend, tune);
    CHECK(distance(four(f(on.q, on.q, on.q)), want) <= 2e-5);
    const report r = f.report();
    const bool fused = std::any_of(r.steps.begin(), r.steps.end(), [](const auto& k) { return k.name == "attention"; });
    CHECK(fused == (std::string(way) != "composition"));
  }
}

TEST_CASE("what is deterministic, small or open measures nothing") {
  const operands on;
  const auto f = compile(layer, {.mode = mode::max_autotune, .deterministic = true});
  const auto g = compile(layer, {.mode = mode::standard});
  CHECK(f(on.x, on.w, on.b).to_vector() == g(on.x, on.w, on.b).to_vector());
  const auto open = compile(layer, {.mode = mode::max_autotune, .dynamic = dynamic::yes});
  open(on.x, on.w, on.b);
  const auto small = compile([](const matrix& x) { return matrix(matmul(x, x)); }, tune);
  small(full<float>(1.f, 40, 40));
  // Less than a hundredth of its graph's work.
  const auto part = compile(
      [](const matrix& x, const tensor<float, 1>& y) {
        return std::pair{matrix(matmul(x, x)), tensor<float, 1>(exp(y))};
      },
      tune);
  part(full<float>(1.f, 72, 72), full<float>(1.f, 1 << 23));
  for (const report& r : {f.report(), g.report(), open.report(), small.report(), part.report()}) {
    CHECK(r.measured == 0);
    CHECK(r.choices.empty());
  }
}

TEST_CASE("rows at computed places are no operands for trials") {
  const scratch_folder folder;
  const environment_value cache("SINTER_CACHE_DIR", folder.path);
  const operands on;
  const matrix table = normal<float>(make_key(5), 9000, 300);
  const tensor<std::int64_t, 1> ids = arange<std::int64_t>(48);
  const auto rows = [](const matrix& x, const matrix& w, const matrix& t, const tensor<std::int64_t, 1>& i) {
    return matrix(matmul(x, w) * take(t, i * 100 + 4000));
  };
  const auto f = compile(rows, tune);
  const matrix y = f(on.x, on.w, table, ids);
  CHECK(f.report().steps.size() == 1);
  CHECK(f.report().measured == 0);
  CHECK(distance(y, matrix(compile(rows, {.backend = "reference"})(on.x, on.w, table, ids))) <= 1e-5);
}

TEST_CASE("tuned programs agree with the interpreter, kernel by kernel") {
  const operands on;
  const environment_value forced("SINTER_CANDIDATE", "option 1");
  const auto v = verify(compile(layer, tune))(on.x, on.w, on.b);
  CHECK(v.found == verification::outcome::agrees);
}

TEST_CASE("child: a product and attention on the host" * doctest::skip()) {
  const operands on;
  const auto f = compile(
      [](const matrix& x, const matrix& w, const tensor<float, 1>& b, const four& q) {
        return std::pair{layer(x, w, b), attend(q, q, q)};
      },
      tune);
  const auto [y, z] = f(on.x, on.w, on.b, on.q);
  CHECK(distance(y, matrix(compile(layer, {.backend = "reference"})(on.x, on.w, on.b))) <= 1e-5);
  CHECK(distance(z, four(compile(attend, {.backend = "reference"})(on.q, on.q, on.q))) <= 2e-5);
  tuned::check_expected(f.report());
}

TEST_CASE("child: a program that is saved" * doctest::skip()) {
  const operands on;
  const auto f = compile(
      [](const matrix& x, const matrix& w, const tensor<float, 1>& b) {
        matrix y = layer(x, w, b);
        for (int i = 0; i < 120; ++i) y = sin(y) + 0.5f;
        return y;
      },
      tune);
  f(on.x, on.w, on.b);
  const report r = f.report();
  REQUIRE(r.nodes_traced >= 200);
  const bool kept = variable("SINTER_TEST_EXPECT") == "kept";
  CHECK(kept == std::any_of(r.stages.begin(), r.stages.end(), [](const auto& s) { return s.name == "read"; }));
  tuned::check_expected(r);
}

TEST_CASE("a saved program has its choices") {
  const scratch_folder folder;
  CHECK(tuned::process("child: a program that is saved", folder.path + "/cache", "measured") == 0);
  CHECK(tuned::process("child: a program that is saved", folder.path + "/cache", "kept") == 0);
}

TEST_CASE("another process measures nothing") { tuned::cold_then_warm("child: a product and attention on the host"); }
