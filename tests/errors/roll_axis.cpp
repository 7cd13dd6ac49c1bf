// expect: error
// match: \[roll\] an axis is out of range
// lines: 25
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x) { return roll(x, 1, axis<2>); }
