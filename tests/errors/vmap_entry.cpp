// expect: error
// match: \[vmap\] an entry of in_axes or out_axes is an int or none
// first: 3
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

auto f(const tensor<float, 2>& x) {
  return vmap([](tensor<float, 1> row) { return sum(row); }, in_axes<true>)(x);
}
