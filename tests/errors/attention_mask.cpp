// expect: error
// match: \[attention\] a mask is a function, or a bool tensor
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

auto f(const tensor<float, 3>& x) { return attention(x, x, x, masked(x)); }
