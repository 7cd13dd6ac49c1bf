// expect: error
// match: \[cond\] a branch does not take these arguments
// lines: 20, clang++ 16
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<double, 2>& x) {
  return cond(
      true, [](tensor<float, 2> t) { return t; }, [](tensor<double, 2> t) { return t; }, x);
}
