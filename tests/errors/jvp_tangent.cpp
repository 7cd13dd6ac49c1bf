// expect: error
// match: \[jvp\] a tangent does not fit its argument: it is a tree of the same structure, dtypes and ranks
// lines: 60
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x, tensor<float, 2> v) {
  return jvp([](tensor<float, 1> v) { return sum(v); })(x, v);
}
