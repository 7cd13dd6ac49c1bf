// expect: error
// match: \[rotary\] x is
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

auto f(const tensor<float, 1>& x) { return rotary(x); }
