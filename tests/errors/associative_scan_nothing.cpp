// expect: error
// match: \[associative_scan\] the function returns nothing
// first: 3
// lines: 16
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> x) {
  return associative_scan([](tensor<float, 1>, tensor<float, 1>) {}, x);
}
