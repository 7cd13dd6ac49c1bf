// expect: error
// match: \[transpose\] is called as .*transpose.*; axes are types
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x) { return transpose(x, 0, 1); }
