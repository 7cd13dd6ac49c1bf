// expect: error
// match: \[compile\] the function does not take these arguments
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a) {
  return compile([](tensor<float, 1> x) { return sum(x); })(a);
}
