// expect: error
// match: \[grad\] the function has no such argument, or one is named twice
// lines: 60
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  return grad<0, 0>([](auto v) { return sum(v); })(x);
}
