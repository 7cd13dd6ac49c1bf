// expect: error
// match: \[scan\] f returns a carry of another structure, dtype or rank
// first: 3
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x, tensor<float, 2> xs) {
  return scan([](tensor<float, 1> c, tensor<float, 1> r) { return std::pair{sum(c), r}; }, x, xs);
}
