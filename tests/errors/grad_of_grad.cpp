// expect: error
// match: \[grad\] the function does not take these arguments
// first: 3
// lines: 16, clang++ 20
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 0> x) {
  return grad(grad([](tensor<double, 0> t) { return t * t; }))(x);
}
