// expect: error
// match: \[hessian\] the function must return a rank-0 floating tensor; use sum or mean
// first: 3
// lines: 16, clang++ 20
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  return hessian([](tensor<float, 1> t) { return t * t; })(x);
}
