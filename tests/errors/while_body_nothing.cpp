// expect: error
// match: \[while_loop\] the body returns nothing
// first: 3
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  return while_loop([](tensor<float, 1> c) { return sum(c) > 0.f; }, [](tensor<float, 1>) {}, x);
}
