// expect: error
// match: \[avg_pool\] takes a floating dtype; cast with cast<float>\(x\)
// lines: 40

#include <sinter/windows.hpp>

using namespace sinter;

auto wrong(tensor<int, 4> x) { return avg_pool2d(x, 2); }
