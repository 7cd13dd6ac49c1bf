// expect: error
// match: \[exp\] takes a floating dtype; cast with cast<float>\(x\)
// lines: 32

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<int, 2> a) { return exp(a); }
