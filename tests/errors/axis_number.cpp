// expect: error
// match: \[sum\] is called as .*sum\(x, axis<0>\).*; axes are types
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x) { return sum(x, 0); }
