// expect: error
// match: \[vmap\] out_axes has one entry, or one for each part
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

auto f(const tensor<float, 2>& x) {
  return vmap([](tensor<float, 1> row) { return row; }, out_axes<0, 1>)(x);
}
