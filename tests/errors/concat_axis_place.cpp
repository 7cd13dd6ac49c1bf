// expect: error
// match: \[concat, stack\] the axis stands behind all operands
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> a, tensor<float, 1> b) { return concat(a, b, axis<0>, a); }
