// expect: error
// match: \[associative_scan\] a struct in xs has no place for an item
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

struct linear {
  tensor<float, 2> w;
};

auto f(const linear& p) {
  return associative_scan([](linear a, linear) { return a; }, p);
}
