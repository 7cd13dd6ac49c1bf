// expect: error
// match: \[associative_scan\] the function takes two items of xs
// first: 3
// lines: 16
#include <sinter/sinter.hpp>

using namespace sinter;

auto f(const tensor<float, 2>& x) {
  return associative_scan([](tensor<float, 2> a, tensor<float, 2> b) { return a * b; }, x);
}
