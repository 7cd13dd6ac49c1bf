// expect: error
// match: \[diagonal\] needs two axes
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 1>& x) { return diagonal(x); }
