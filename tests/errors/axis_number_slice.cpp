// expect: error
// match: \[slice\] is called as .*slice.*; axes are types
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x) { return slice(x, 0, 1); }
