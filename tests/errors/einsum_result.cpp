// expect: error
// match: \[einsum\] a label of the result is in no operand
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a, tensor<float, 2> b) { return einsum<"ij,jk->iz">(a, b); }
