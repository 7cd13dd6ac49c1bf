// expect: error
// match: \[grad\] the function does not take these arguments
// lines: 16, clang++ 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<double, 2>& x) {
  return grad([](tensor<float, 2> t) { return sum(t); })(x);
}
