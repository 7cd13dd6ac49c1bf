// expect: error
// match: \[quantized_matmul\] the scales have the dtype of x
// lines: 24
#include <sinter/formats.hpp>

using namespace sinter;

auto f(const tensor<float, 2>& x, const tensor<std::int8_t, 2>& w, const tensor<double, 1>& s) {
  return quantized_matmul(x, w, s);
}
