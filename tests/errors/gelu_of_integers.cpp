// expect: error
// match: \[gelu\] takes a floating dtype; cast with cast<float>\(x\)
// lines: 26

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<int, 1> a) { return gelu(a); }
