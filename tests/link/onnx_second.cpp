#include <sinter/onnx.hpp>
#include <sinter/sinter.hpp>

#include <string>

#include "../onnx/model_writer.hpp"

float second(const std::string& file, float x) {
  const sinter::onnx::function<sinter::tensor<float, 1>(sinter::tensor<float, 1>)> f(
      sinter::onnx::load(onnx_test::bytes_of(file), {.backend = "reference"}));
  const auto square =
      sinter::compile([&](const sinter::tensor<float, 1>& v) { return f(v) * 1.0f; }, {.backend = "reference"});
  return square(sinter::tensor<float, 1>{x, x}).to_vector()[1];
}
