// expect: error
// match: \[associative_scan\] the function takes two items of xs
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

auto f(const tensor<float, 2>& x) {
  return associative_scan([](tensor<float, 2> a, tensor<float, 2> b) { return a * b; }, x);
}
