// expect: error
// match: \[grad\] the argument holds no floating tensor
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<int, 1> x) {
  return grad([](tensor<int, 1> v) { return sum(cast<float>(v)); })(x);
}
