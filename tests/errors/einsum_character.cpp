// expect: error
// match: \[einsum\] labels are letters
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a, tensor<float, 2> b) { return einsum<"i1,1k->ik">(a, b); }
