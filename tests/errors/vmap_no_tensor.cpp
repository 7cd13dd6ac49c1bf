// expect: error
// match: \[vmap\] the function returns no tensor
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

auto f(const tensor<float, 2>& x) {
  return vmap([](tensor<float, 1>) { return 3; })(x);
}
