// expect: error
// match: \[grad\] the function must return a rank-0 floating tensor; it returns nothing
// lines: 18, clang++ 28
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<double, 2>& x) {
  return grad([](tensor<double, 2>) {})(x);
}
