// expect: error
// match: \[mean\] takes a floating dtype; cast with cast<float>\(x\)
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<int, 2> a) { return mean(a); }
