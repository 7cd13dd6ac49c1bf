// expect: error
// match: \[vmap\] the function does not take one lane of these arguments
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

auto f(const tensor<float, 2>& x) {
  return vmap([](tensor<float, 2> m) { return sum(m); })(x);
}
