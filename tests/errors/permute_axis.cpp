// expect: error
// match: \[permute\] an axis is out of range
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a) { return permute(a, axis<0, 2>); }
