// expect: error
// match: \[associative_scan\] the function returns another dtype or rank
// first: 3
// lines: 16
#include <sinter/sinter.hpp>

using namespace sinter;

auto f(const tensor<float, 2>& x) {
  return associative_scan([](tensor<float, 1> a, tensor<float, 1> b) { return sum(a * b); }, x);
}
