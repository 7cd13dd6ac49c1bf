// expect: error
// match: \[take\] a bool tensor is a mask, and no index: compress\(x, mask\).*where\(mask, x, y\)
// first: 3
// lines: 20

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) { return x[x > 0.f]; }
