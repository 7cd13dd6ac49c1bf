// expect: error
// match: \[associative_scan\] is called as associative_scan\(f, xs\)
// first: 3
// lines: 16
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong() {
  return associative_scan([](tensor<float, 1> a, tensor<float, 1> b) { return a + b; });
}
