// expect: error
// match: \[grad\] the function must return a rank-0 floating tensor; it returns nothing
// lines: 16, clang++ 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<double, 2>& x) {
  return grad([](tensor<double, 2>) {})(x);
}
