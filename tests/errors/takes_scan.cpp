// expect: error
// match: \[scan\] f takes the carry and a slice of xs
// lines: 16
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<double, 2>& x) {
  return scan([](tensor<float, 0> c, tensor<float, 1>) { return std::pair{c, c}; }, tensor<float, 0>(0), x);
}
