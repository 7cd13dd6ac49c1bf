// expect: error
// match: \[vjp\] the cotangent does not fit: it is a tree of the same structure, dtypes and ranks as what it is of
// lines: 60
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  return vjp([](tensor<float, 1> v) { return sum(v); })(x).second(x);
}
