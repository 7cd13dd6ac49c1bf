// <sinter/onnx.hpp> as headers alone, in two units: every definition must be mergeable.
#include <sinter/onnx.hpp>
#include <sinter/sinter.hpp>

#include <cstdio>
#include <string>

#include "../onnx/model_writer.hpp"

float second(const std::string& file, float x);

float first(const std::string& file, float x) {
  const sinter::onnx::model m = sinter::onnx::load(onnx_test::bytes_of(file), {.backend = "reference"});
  return m({sinter::tensor<float, 1>{x, x}})[0].as<sinter::tensor<float, 1>>().to_vector()[1];
}

int main() {
  onnx_test::graph g;
  g.initializers = {onnx_test::tensor("w", {2}, std::vector<float>{2, 3})};
  g.inputs = {onnx_test::value("x", onnx_test::f32, {"2"})};
  g.outputs = {onnx_test::value("y", onnx_test::f32, {"2"})};
  g.nodes = {onnx_test::node("Mul", {"x", "w"}, {"y"})};
  const std::string file = g.model();
  const float a = first(file, 2.0f), b = second(file, 2.0f);
  if (a == 6.0f && b == 6.0f) return 0;
  std::printf("first %g, second %g, expected 6\n", static_cast<double>(a), static_cast<double>(b));
  return 1;
}
