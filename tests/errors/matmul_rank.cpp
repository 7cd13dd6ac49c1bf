// expect: error
// match: \[matmul\] .*no operand has rank 0
// lines: 26

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 0> a, tensor<float, 2> b) { return matmul(a, b); }
