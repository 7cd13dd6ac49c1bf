// expect: error
// match: \[var\] is called as .*var.*; axes are types
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x) { return var(x, 1); }
