// expect: error
// match: \[at\] a bool tensor is a mask, and no index: compress\(x, mask\).*where\(mask, x, y\)
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> x) { return x.at(x > 0.f).set(0.f); }
