// expect: error
// match: \[einsum\] write one label per axis
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a, tensor<float, 2> b) { return einsum<"ijk,jk->ik">(a, b); }
