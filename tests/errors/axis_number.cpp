// expect: error
// match: \[sum\] axes are types: sum\(x, axis<0>\)
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x) { return sum(x, 0); }
