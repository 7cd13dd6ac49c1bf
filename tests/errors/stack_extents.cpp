// expect: error
// match: \[stack\] the static extents differ
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, dims{2}> a, tensor<float, dims{3}> b) { return stack(a, b); }
