#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <sinter/run/cuda/program/graph.hpp>

#include "../../../environment_value.hpp"
#include "../support.hpp"

using namespace sinter;
using namespace support;
using engine::convolution;
using engine::convolution_array;
using engine::convolution_epilogue;
using engine::convolution_kind;

namespace {

using extents = std::vector<std::int64_t>;

/// An array without gaps, with channels last or first.
convolution_array array_of(const extents& e, bool last) {
  convolution_array out;
  std::int64_t step = 1;
  const auto next = [&](std::size_t d) { out.strides[d] = step, step *= e[d]; };
  for (std::size_t d = 0; d < e.size(); ++d) out.extents[d] = e[d];
  if (last) next(1);
  for (std::size_t d = e.size(); d-- > 2;) next(d);
  if (!last) next(1);
  next(0);
  return out;
}

/// An image, weights of one group, and the number of places that the windows leave.
convolution of_extents(const extents& image, const extents& weights, std::int64_t step, std::int64_t dilation,
                       std::int64_t low, std::int64_t high, bool last) {
  convolution c;
  c.spatial = static_cast<int>(image.size()) - 2;
  c.groups = image[1] / weights[1];
  c.image = array_of(image, last);
  c.weights = array_of(weights, last);
  extents result{image[0], weights[0]};
  for (std::size_t d = 2; d < image.size(); ++d) {
    c.step[d - 2] = step, c.dilation[d - 2] = dilation, c.low[d - 2] = low, c.high[d - 2] = high;
    result.push_back((image[d] + low + high - (weights[d] - 1) * dilation - 1) / step + 1);
  }
  c.result = array_of(result, last);
  return c;
}

/// The element of an array at an index.
std::size_t at(const convolution_array& x, const extents& index) {
  std::int64_t sum = 0;
  for (std::size_t d = 0; d < index.size(); ++d) sum += index[d] * x.strides[d];
  return static_cast<std::size_t>(sum);
}
bool advance(extents& index, const convolution_array& x) {
  for (std::size_t d = index.size(); d-- > 0;) {
    if (++index[d] < x.extents[d]) return true;
    index[d] = 0;
  }
  return false;
}

/// Sums of 64 bits, and of the terms' sizes, for each element of the written array.
struct sums {
  std::vector<double> value, size;
};

sums expected(const convolution& c, const std::vector<float>& image, const std::vector<float>& weights,
              const std::vector<float>& result, const std::vector<float>& bias) {
  const std::size_t rank = static_cast<std::size_t>(c.spatial) + 2;
  const auto& to = c.kind == convolution_kind::image     ? c.image
                   : c.kind == convolution_kind::weights ? c.weights
                                                         : c.result;
  const auto count = static_cast<std::size_t>(engine::reach_of(to, c.spatial));
  sums out{std::vector<double>(count, 0), std::vector<double>(count, 1)};
  const std::int64_t inputs = c.weights.extents[1], outputs = c.weights.extents[0] / c.groups;
  extents y(rank, 0);
  do {
    extents tap(rank, 0);
    do {
      if (tap[0] != y[1]) continue;
      extents x(rank, 0);
      x[0] = y[0];
      x[1] = y[1] / outputs * inputs + tap[1];
      bool inside = true;
      for (std::size_t d = 2; d < rank; ++d) {
        x[d] = y[d] * c.step[d - 2] + tap[d] * c.dilation[d - 2] - c.low[d - 2];
        inside = inside && x[d] >= 0 && x[d] < c.image.extents[d];
      }
      if (!inside) continue;
      const double i = image[at(c.image, x)], w = weights[at(c.weights, tap)], r = result[at(c.result, y)];
      const std::size_t n = c.kind == convolution_kind::image     ? at(c.image, x)
                            : c.kind == convolution_kind::weights ? at(c.weights, tap)
                                                                  : at(c.result, y);
      const double term = c.kind == convolution_kind::image     ? r * w
                          : c.kind == convolution_kind::weights ? i * r
                                                                : i * w;
      out.value[n] += term;
      out.size[n] += std::abs(term);
    } while (advance(tap, c.weights));
    if (c.kind != convolution_kind::result) continue;
    double& v = out.value[at(c.result, y)];
    if (engine::has_bias(c.after)) v += bias[static_cast<std::size_t>(y[1])];
    if (engine::has_relu(c.after)) v = std::max(v, 0.0);
  } while (advance(y, c.result));
  return out;
}

/// Computes by cuDNN what `c` says, as a step of a program would; `slack` is relative to the sum of the terms' sizes.
template <class T>
void check_convolution(convolution c, double slack, bool tuned = false) {
  c.type = c.written = dtype_of<T>;
  std::string why;
  const bool can = cuda::can_convolve(c, 0, why);
  if (!can && emulator::real()) {
    MESSAGE("SKIPPED: " << cuda::detail::described(c) << ": " << why);
    return;
  }
  REQUIRE_MESSAGE(can, why);
  std::mt19937 random(17);
  const auto filled = [&](std::int64_t n) {
    std::vector<float> out(static_cast<std::size_t>(n));
    for (auto& x : out) x = static_cast<float>(static_cast<int>(random() % 17) - 8) / 8;
    return out;
  };
  const auto image = filled(engine::reach_of(c.image, c.spatial)),
             weights = filled(engine::reach_of(c.weights, c.spatial)),
             result = filled(engine::reach_of(c.result, c.spatial)), bias = filled(c.result.extents[1]);
  const auto given = [](const std::vector<float>& x) { return on_gpu(std::vector<T>(x.begin(), x.end())); };
  const storage memory[] = {given(image), given(weights), given(result), given(bias)};
  cuda::sequence s;
  s.given = 4;
  cuda::step one;
  one.what = cuda::action::convolution;
  one.label = "dot (at net.cpp:3)";
  one.windows = c;
  for (int n = 0; n < (engine::has_bias(c.after) ? 4 : 3); ++n) one.operands.push_back({n, 0});
  const int to = c.kind == convolution_kind::image ? 0 : c.kind == convolution_kind::weights ? 1 : 2;
  one.operands[static_cast<std::size_t>(to)].written = true;
  s.steps.push_back(one);
  s.tuned = tuned;
  void* const addresses[] = {memory[0].data(), memory[1].data(), memory[2].data(), memory[3].data()};
  if (tuned) {
    s.steps.push_back(one);  // a single step is not recorded
    cuda::recording r(s, std::make_shared<cuda::scratch_pool>(), 0);
    r.launch(addresses, nullptr);
  } else {
    cuda::execute(s, addresses, nullptr);
  }
  const sums want = expected(c, image, weights, result, bias);
  const auto got = on_host<T>(memory[to], want.value.size());
  for (std::size_t i = 0; i < want.value.size(); ++i)
    REQUIRE(std::abs(static_cast<double>(static_cast<float>(got[i])) - want.value[i]) <= slack * want.size[i]);
}

bool has_library() {
  if (cuda::dnn().problem.empty()) return true;
  MESSAGE("SKIPPED: " << cuda::dnn().problem);
  return false;
}

}  // namespace

TEST_CASE("results and gradients by cuDNN in each dtype and layout") {
  if (!has_library()) return;
  for (const bool last : {true, false})
    for (const auto kind : {convolution_kind::result, convolution_kind::image, convolution_kind::weights})
      for (const std::int64_t step : {1, 2})
        for (const std::int64_t dilation : {1, 2})
          for (const std::int64_t groups : {1, 2}) {
            convolution c = of_extents({2, 8, 9, 7}, {6, 8 / groups, 3, 3}, step, dilation, 1, 1, last);
            c.kind = kind;
            CAPTURE(last);
            CAPTURE(step);
            CAPTURE(dilation);
            CAPTURE(groups);
            check_convolution<float>(c, 1e-6);
            check_convolution<f16>(c, 2e-3);
            check_convolution<bf16>(c, 1e-2);
          }
}

TEST_CASE("sizes of 1, odd sizes, uneven padding and three axes by cuDNN") {
  if (!has_library()) return;
  for (const auto kind : {convolution_kind::result, convolution_kind::image, convolution_kind::weights})
    for (const bool last : {true, false}) {
      convolution all[] = {of_extents({1, 1, 1, 1}, {1, 1, 1, 1}, 1, 1, 0, 0, last),
                           of_extents({1, 1, 5, 4}, {1, 1, 3, 2}, 1, 1, 1, 1, last),
                           of_extents({3, 5, 1, 13}, {7, 5, 1, 1}, 1, 1, 0, 0, last),
                           of_extents({2, 3, 6, 7}, {5, 3, 4, 2}, 1, 1, 1, 2, last),
                           of_extents({2, 3, 8, 6}, {4, 3, 3, 3}, 2, 1, 0, 1, last),
                           of_extents({2, 3, 4, 5, 6}, {4, 3, 3, 3, 3}, 1, 1, 1, 1, last)};
      for (convolution& c : all) {
        c.kind = kind;
        check_convolution<float>(c, 1e-6);
      }
    }
}

TEST_CASE("a bias and a relu by cuDNN, by the fastest engine, and in one order of sums") {
  if (!has_library()) return;
  convolution c = of_extents({2, 8, 6, 7}, {6, 8, 3, 3}, 1, 1, 1, 1, true);
  for (const auto after : {convolution_epilogue::bias, convolution_epilogue::bias_relu}) {
    c.after = after;
    for (const bool tuned : {false, true})
      for (const bool deterministic : {false, true}) {
        c.deterministic = deterministic;
        check_convolution<float>(c, 1e-6, tuned);
        check_convolution<bf16>(c, 1e-2, tuned);
      }
  }
  c = of_extents({2, 8, 6, 7}, {6, 8, 3, 3}, 1, 1, 1, 1, true);
  c.tf32 = true;
  check_convolution<float>(c, 2e-3);
  check_convolution<float>(c, 2e-3, true);
}

TEST_CASE("a convolution has one plan, and what cuDNN does not compute has a reason") {
  if (!has_library()) return;
  std::string why;
  convolution c = of_extents({2, 8, 6, 7}, {6, 8, 3, 3}, 1, 1, 1, 1, true);
  REQUIRE(cuda::can_convolve(c, 0, why));
  CHECK(&cuda::plan_convolution(c, 16, 0) == &cuda::plan_convolution(c, 16, 0));
  CHECK(&cuda::plan_convolution(c, 16, 0) != &cuda::plan_convolution(c, 4, 0));
  c.type = c.written = dtype::i32;
  CHECK_FALSE(cuda::can_convolve(c, 0, why));
  CHECK(why == "cuDNN has no convolutions of i32");
  c.type = c.written = dtype::f32;
  c.image.strides[2] += 8;  // rows with gaps
  if (!emulator::real()) {
    CHECK_FALSE(cuda::can_convolve(c, 0, why));
    CHECK(why == "cuDNN has no suitable engine");
    const environment_value fails("SINTER_EMULATOR_DNN", "fail");
    c = of_extents({2, 4, 6, 7}, {6, 4, 3, 3}, 1, 1, 1, 1, true);
    CHECK_THROWS_WITH(check_convolution<float>(c, 0),
                      "[cuda] the convolution (2, 4, 6, 7) by (6, 4, 3, 3) of f32 in dot (at net.cpp:3) failed: cuDNN: "
                      "CUDNN_STATUS_EXECUTION_FAILED");
  }
}

TEST_CASE("a missing cuDNN is a reason with a remedy") {
  const auto opened = [](const char* path) {
    const environment_value chosen("SINTER_LIBCUDNN", path);
    return cuda::detail::open_dnn()->problem;
  };
  CHECK(
      opened("/nonexistent/libcudnn.so.9") ==
      "no cuDNN: SINTER_LIBCUDNN=/nonexistent/libcudnn.so.9 cannot be opened; install cuDNN 8.1 or newer (or Python's "
      "nvidia-cudnn), or set SINTER_LIBCUDNN");
  CHECK(opened("libm.so.6").find("lacks cudnn") != std::string::npos);
}
