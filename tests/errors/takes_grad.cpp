// expect: error
// match: \[grad\] the function does not take these arguments
// lines: 18, clang++ 28
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<double, 2>& x) {
  return grad([](tensor<float, 2> t) { return sum(t); })(x);
}
