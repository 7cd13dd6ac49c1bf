// expect: error
// match: \[grad\] the function must return a rank-0 floating tensor
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  return grad([](tensor<float, 1> v) { return v * 2; })(x);
}
