// expect: error
// match: \[jvp\] a call gives the function's arguments, then a tangent for each that varies
// lines: 60
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  return jvp([](tensor<float, 1> v) { return sum(v); })(x);
}
