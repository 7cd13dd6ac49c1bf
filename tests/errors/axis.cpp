// expect: error
// match: sinter: \[sum\] an axis is out of range
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a) { return sum(a, axis<2>); }
