// expect: error
// match: \[sort\] an axis is out of range
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a) { return sort(a, axis<2>); }
