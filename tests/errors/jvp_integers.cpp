// expect: error
// match: \[jvp\] the function returns no floating tensor
// lines: 60
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  return jvp([](tensor<float, 1> v) { return argmax(v); })(x, x);
}
