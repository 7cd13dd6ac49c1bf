// expect: error
// match: \[vmap\] no argument has lanes
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

auto f(const tensor<float, 2>& x) {
  return vmap([](tensor<float, 2> m, float s) { return sum(m * s); }, in_axes<none, none>)(x, 2.f);
}
