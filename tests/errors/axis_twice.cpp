// expect: error
// match: sinter: \[sum\] an axis is given twice
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a) { return sum(a, axis<1, -1>); }
