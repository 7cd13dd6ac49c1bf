// expect: error
// match: \[pow\] is called as pow\(x, y\)
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x) { return pow(x); }
