// expect: error
// match: \[grad\] the argument holds no floating tensor
// lines: 20

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(float x) {
  return grad([](float v) { return v; })(x);
}
