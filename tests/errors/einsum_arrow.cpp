// expect: error
// match: \[einsum\] write the operands, then '->', then the result, once
// lines: 26

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a, tensor<float, 2> b) { return einsum<"ij->jk->ik">(a, b); }
