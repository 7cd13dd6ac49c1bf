// expect: error
// match: \[compile\] the function does not take these arguments
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<double, 2>& x) {
  return verify([](tensor<float, 2> t) { return sum(t); })(x);
}
