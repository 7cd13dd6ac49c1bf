// expect: error
// match: \[matmul\].*inner extents
// match: 64
// match: 32
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, dims{dyn, 64}> a, tensor<float, dims{32, 10}> b) { return matmul(a, b); }
