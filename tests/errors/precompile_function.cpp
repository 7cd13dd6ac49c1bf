// expect: error
// match: \[precompile\] the function is not compiled; write auto f = compile\(fn\)
// first: 3
// lines: 20

#include <sinter/sinter.hpp>

using namespace sinter;

void wrong() {
  precompile([](tensor<float, 1> x) { return sum(x); }, spec<tensor<float, 1>>{{3}});
}
