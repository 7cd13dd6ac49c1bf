// expect: error
// match: \[var\] axes are types: var
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x) { return var(x, 1); }
