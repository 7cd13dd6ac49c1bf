// expect: error
// match: \[hessian\] the function does not take these arguments
// first: 3
// lines: 16, clang++ 20
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  return hessian([](tensor<double, 1> t) { return sum(t * t); })(x);
}
