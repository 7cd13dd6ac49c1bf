// expect: error
// match: \[while_loop\] the test returns no bool of rank 0
// first: 3
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  return while_loop([](tensor<float, 1> c) { return sum(c); }, [](tensor<float, 1> c) { return c; }, x);
}
