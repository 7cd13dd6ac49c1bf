// expect: error
// match: \[vmap\] an axis of in_axes is out of range
// first: 3
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

auto f(const tensor<float, 2>& x) {
  return vmap([](tensor<float, 1> row) { return sum(row); }, in_axes<2>)(x);
}
