// expect: error
// match: \[vmap\] an axis of in_axes is out of range for the rank of its argument; the entry none
// first: 3
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

auto f(const tensor<float, 2>& x, const tensor<float, 0>& s) {
  return vmap([](tensor<float, 1> row, tensor<float, 0> s) { return sum(row) * s; })(x, s);
}
