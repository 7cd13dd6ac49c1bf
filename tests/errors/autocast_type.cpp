// expect: error
// match: \[autocast\] the type is bf16, f16, or float
// lines: 20

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong() {
  return autocast<double>([](tensor<float, 2> a) { return matmul(a, a); });
}
