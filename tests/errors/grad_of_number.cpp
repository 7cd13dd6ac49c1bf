// expect: error
// match: \[grad\] a number that is differentiated by arrives as a tensor of rank 0: let the function take and return tensor<double, 0>, or auto
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(float x) {
  return grad([](float v) { return v; })(x);
}
