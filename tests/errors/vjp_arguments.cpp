// expect: error
// match: \[vjp\] the function does not take these arguments: their number, a dtype or a rank differs
// lines: 60
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  return vjp([](tensor<float, 2> v) { return sum(v); })(x);
}
