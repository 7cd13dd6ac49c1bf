// One model called by many threads at once, with as many batches: as many results as of one thread. ThreadSanitizer runs it, too.
#include <doctest/doctest.h>
#include <sinter/onnx.hpp>
#include <sinter/sinter.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "calls.hpp"
#include "model_writer.hpp"

using namespace sinter;
using onnx_test::node;
using onnx_test::value;

namespace {

constexpr int threads = 4, calls = 24;

/// sigmoid(x·w) of x (N, 2), and the sum of its columns.
std::string model_of_rows() {
  onnx_test::graph g;
  g.initializers = {onnx_test::tensor("w", {2, 3}, std::vector<float>{0.5f, -1.f, 0.25f, 1.5f, -0.75f, 2.f}),
                    onnx_test::tensor("axes", {1}, std::vector<std::int64_t>{0})};
  g.inputs = {value("x", onnx_test::f32, {"N", "2"})};
  g.outputs = {value("y", onnx_test::f32, {"N", "3"}), value("s", onnx_test::f32, {"3"})};
  g.nodes = {node("MatMul", {"x", "w"}, {"h"}), node("Sigmoid", {"h"}, {"y"}),
             node("ReduceSum", {"y", "axes"}, {"s"}, {onnx_test::attribute("keepdims", 0)})};
  return g.model();
}

/// The largest difference from what it is, of a batch of n rows.
double difference(const std::vector<dynamic_tensor>& got, const tensor<float, 2>& x) {
  const std::array<float, 6> w{0.5f, -1.f, 0.25f, 1.5f, -0.75f, 2.f};
  const auto y = got.at(0).as<tensor<float, 2>>();
  const auto s = got.at(1).as<tensor<float, 1>>();
  double most = 0;
  for (std::size_t k = 0; k < 3; ++k) {
    double sum = 0;
    for (std::int64_t i = 0; i < x.size(0); ++i) {
      const double h = double{x(i, 0)} * double{w[k]} + double{x(i, 1)} * double{w[3 + k]},
                   want = 1 / (1 + std::exp(-h));
      most = std::max(most, std::abs(double{y(i, static_cast<std::int64_t>(k))} - want));
      sum += want;
    }
    most = std::max(most, std::abs(double{s(static_cast<std::int64_t>(k))} - sum) / static_cast<double>(x.size(0)));
  }
  return most;
}

}  // namespace

TEST_CASE("one model is called by many threads") {
  const std::string file = model_of_rows();
  const onnx::model m = onnx::load(onnx_test::bytes_of(file));
  std::array<double, threads> most{};
  std::array<int, threads> made{};
  std::vector<std::thread> all;
  for (std::size_t t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      for (int k = 0; k < calls; ++k) {
        const auto rows = static_cast<std::int64_t>(1 + (static_cast<std::size_t>(k) * 5 + t * 3) % 7);
        tensor<float, 2> x = zeros<float>(rows, 2);
        const auto numbers = onnx_test::some(static_cast<std::size_t>(2 * rows), static_cast<double>(t * 100) + k);
        for (std::int64_t i = 0; i < 2 * rows; ++i) x.data()[i] = numbers[static_cast<std::size_t>(i)];
        most[t] = std::max(most[t], difference(m({x}), x));
        ++made[t];
      }
    });
  for (auto& t : all) t.join();
  for (std::size_t t = 0; t < threads; ++t) {
    CHECK(made[t] == calls);
    CHECK(most[t] < 1e-5);
  }
  CHECK(m.specialisations() <= 3);
}
