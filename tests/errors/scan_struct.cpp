// expect: error
// match: \[scan\] a struct in xs has no place for a slice.*stacked<S>
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

struct linear {
  tensor<float, 2> w;
};

auto f(const linear& p) {
  return scan([](tensor<float, 0> c, linear) { return std::pair{c, c}; }, tensor<float, 0>(0), p);
}
