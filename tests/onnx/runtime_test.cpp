// The backend "onnxruntime", and models that ONNX Runtime runs: values beside the reference, refusals, threads. Skipped where
// ONNX Runtime is missing; tests/onnx/fetch_runtime.sh brings it.
#include <doctest/doctest.h>
#include <sinter/onnx.hpp>
#include <sinter/sinter.hpp>
#include <sinter/windows.hpp>

#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "../scratch_folder.hpp"
#include "../stderr_text.hpp"
#include "../texts.hpp"

using namespace sinter;
using texts::contains;
using texts::message_of;

namespace {

const options runtime{.backend = "onnxruntime"}, reference{.backend = "reference"};

bool missing() {
  if (onnx::runtime_problem().empty()) return false;
  MESSAGE("skipped: " << onnx::runtime_problem());
  return true;
}

template <class T, dims S>
void check_near(const tensor<T, S>& a, const tensor<T, S>& b, double tolerance) {
  REQUIRE(a.shape() == b.shape());
  const auto x = a.to_vector(), y = b.to_vector();
  for (std::size_t k = 0; k < x.size(); ++k) {
    const double p = static_cast<double>(x[k]), q = static_cast<double>(y[k]);
    if (p == q || (std::isnan(p) && std::isnan(q))) continue;
    CHECK(std::fabs(p - q) <= tolerance * (1 + std::fabs(q)));
  }
}

/// f on ONNX Runtime beside the reference.
template <class F, class... X>
void as_reference(const char* what, F f, const X&... x) {
  INFO(what);
  check_near(compile(f, runtime)(x...), compile(f, reference)(x...), 1e-5);
}

tensor<float, 2> some(std::int64_t n, std::int64_t m) {
  return reshape(sin(arange<float>(n * m) * 1.7f + 0.3f) * 1.5f, n, m);
}

}  // namespace

TEST_CASE("functions on ONNX Runtime give the reference's values") {
  if (missing()) return;
  for (const auto& [n, m] : {std::pair<std::int64_t, std::int64_t>{5, 7}, {1, 1}, {16, 33}}) {
    const auto x = some(n, m), y = some(m, n);
#define SAME(...) \
  as_reference(   \
      #__VA_ARGS__, [](const auto& a, [[maybe_unused]] const auto& b) { return __VA_ARGS__; }, x, y)
    SAME(exp(a) * 0.5f + tanh(a) - abs(a));
    SAME(matmul(a, b));
    SAME(softmax(matmul(a, b)));
    SAME(sum(a, axis<1>) + max(a, axis<1>) - mean(a, axis<1>));
    SAME(where(a > 0.f, log1p(abs(a)), expm1(a)));
    SAME(erfc(a) + rsqrt(abs(a) + 1.f) + hypot(a, a * 2.f) + cbrt(a));
    SAME(transpose(concat<0>(a, a * 2.f)));
    SAME(cumsum(a, axis<1>));
    SAME(sort(a, axis<1>));
    SAME(cast<float>(argmax(a, axis<1>)));
    SAME(take(a, tensor<std::int64_t, 1>{0, 0}, axis<0>));
    SAME(layer_norm(a));
#undef SAME
  }
  as_reference(
      "conv", [](const auto& x, const auto& w) { return conv2d(x, w, {.stride = 2, .padding = 1}); },
      tensor<float, 4>(reshape(some(16, 27), 2, 3, 9, 8)), tensor<float, 4>(reshape(some(9, 12), 4, 3, 3, 3)));
}

TEST_CASE("transposed, empty and rank-0 operands, and several results and dtypes") {
  if (missing()) return;
  const auto f = [](const tensor<float, 2>& x, const tensor<std::int64_t, 0>& k, const tensor<bool, 1>& b) {
    return std::tuple{tensor<float, 2>(x * 2.f + cast<float>(k)), tensor<std::int64_t, 0>(k + 1), tensor<bool, 1>(!b)};
  };
  const auto on = compile(f, runtime);
  const auto [y, k, b] =
      on(tensor<float, 2>(transpose(some(3, 4))), full<std::int64_t>(4), tensor<bool, 1>{true, false});
  check_near(y, tensor<float, 2>(transpose(some(3, 4)) * 2.f + 4.f), 1e-6);
  CHECK(k.item() == 5);
  CHECK(b.to_vector() == std::vector<bool>{false, true});
  const auto [e, l, c] = on(zeros<float>(0, 4), full<std::int64_t>(0), zeros<bool>(0));
  CHECK(e.numel() == 0);
  CHECK(l.item() == 1);
  CHECK(c.numel() == 0);
}

TEST_CASE("captured weights, gradients, branches and loops run on ONNX Runtime") {
  if (missing()) return;
  const auto w = some(7, 3);
  as_reference(
      "captured", [w](const auto& x) { return relu(matmul(x, w)); }, some(5, 7));
  const auto loss = [](const tensor<float, 2>& v, const tensor<float, 2>& x) {
    return mean(square(tanh(matmul(x, v))));
  };
  as_reference(
      "gradient", [loss](const auto& v, const auto& x) { return grad(loss)(v, x); }, w, some(5, 7));
  as_reference(
      "branches",
      [](const auto& x) {
        return cond(
            sum(x) > 0.f, [](const tensor<float, 2>& y) { return tensor<float, 2>(y * 2.f); },
            [](const tensor<float, 2>& y) { return tensor<float, 2>(-y); }, tensor<float, 2>(x));
      },
      some(3, 3));
  as_reference(
      "loop",
      [](const auto& x) {
        return fori_loop(
            0, 5,
            [](const tensor<std::int64_t, 0>& k, const tensor<float, 2>& y) {
              return tensor<float, 2>(y * 0.5f + cast<float>(k));
            },
            tensor<float, 2>(x));
      },
      some(3, 3));
}

TEST_CASE("open sizes make one session for each set of extents") {
  if (missing()) return;
  const auto f = [](const tensor<float, 2>& x) { return softmax(x * 2.f); };
  const auto on = compile(f, {.dynamic = dynamic::yes, .backend = "onnxruntime"});
  for (const std::int64_t n : {3, 5, 3, 9}) check_near(on(some(n, n + 1)), tensor<float, 2>(f(some(n, n + 1))), 1e-5);
}

TEST_CASE("ops without a counterpart are refused by name, and ONNX Runtime's refusals are users' errors") {
  if (missing()) return;
  const auto x = some(2, 2);
  const auto why = message_of([&] { compile([](const auto& a) { return lgamma(a) + digamma(a); }, runtime)(x); });
  CHECK(contains(why, "[onnxruntime] these ops have no counterpart in ONNX: "));
  CHECK(contains(why, "digamma"));
  CHECK(contains(why, "lgamma"));
  const auto refused =
      message_of([&] { compile([](const auto& a) { return erf(a); }, runtime)(tensor<double, 2>(cast<double>(x))); });
  CHECK(contains(refused, "[onnxruntime] ONNX Runtime refuses the model: "));
  CHECK(contains(refused, "choose another backend"));
}

TEST_CASE("several threads call one function") {
  if (missing()) return;
  const auto f = [](const tensor<float, 2>& x) { return matmul(x, x); };
  const auto on = compile(f, runtime);
  const auto x = some(16, 16);
  const auto want = tensor<float, 2>(f(x)).to_vector();
  std::vector<std::vector<float>> got(4);
  std::vector<std::thread> all;
  for (auto& y : got)
    all.emplace_back([&] {
      for (int k = 0; k < 5; ++k) y = tensor<float, 2>(on(x)).to_vector();
    });
  for (auto& t : all) t.join();
  for (const auto& y : got)
    for (std::size_t k = 0; k < y.size(); ++k) CHECK(y[k] == doctest::Approx(want[k]).epsilon(1e-5));
}

TEST_CASE("a saved model gives the same values in ONNX Runtime") {
  const scratch_folder folder;
  const std::string path = folder.path + "/m.onnx";
  const auto f = [](const tensor<float, 2>& x) {
    return std::pair{tensor<float, 2>(exp(x)), tensor<float, 1>(sum(x, axis<0>))};
  };
  onnx::save(path, f, spec<tensor<float, 2>>{{3, 4}});
  if (missing()) {
    CHECK_THROWS_AS(onnx::runtime_model{path}, system_error);
    return;
  }
  const onnx::runtime_model m(path);
  CHECK(m.inputs() == std::vector<std::string>{"x0"});
  CHECK(m.outputs() == std::vector<std::string>{"y0", "y1"});
  const auto x = some(3, 4);
  const auto y = m({x});
  REQUIRE(y.size() == 2);
  check_near(y[0].as<tensor<float, 2>>(), tensor<float, 2>(exp(x)), 1e-6);
  check_near(y[1].as<tensor<float, 1>>(), tensor<float, 1>(sum(x, axis<0>)), 1e-6);
  CHECK(contains(message_of([&] { m({}); }), "the model takes 1 inputs, not 0"));
  CHECK(contains(message_of([&] { m({some(2, 2)}); }), "ONNX Runtime refuses the call: "));
  CHECK(contains(message_of([&] { onnx::runtime_model{folder.path + "/none.onnx"}; }),
                 "ONNX Runtime refuses the model: "));
}
