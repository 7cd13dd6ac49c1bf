// expect: error
// match: \[vmap\] in_axes has an entry for each argument
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

auto f(const tensor<float, 2>& x) {
  return vmap([](tensor<float, 1> row) { return sum(row); }, in_axes<0, 0>)(x);
}
