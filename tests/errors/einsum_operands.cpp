// expect: error
// match: \[einsum\] the text names another number of operands
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a) { return einsum<"ij,jk->ik">(a); }
