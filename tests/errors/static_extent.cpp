// expect: error
// match: static extents do not broadcast
// match: add
// match: 64
// match: 32
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, dims{dyn, 64}> a, tensor<float, dims{dyn, 32}> b) { return a + b; }
