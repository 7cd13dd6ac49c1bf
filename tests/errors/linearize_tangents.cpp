// expect: error
// match: \[linearize\] a linear function takes a tangent for each argument that varies
// lines: 60
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  return linearize([](tensor<float, 1> v) { return sum(v); })(x).second(x, x);
}
