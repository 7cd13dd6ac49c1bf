// expect: error
// match: \[attention\] an option is given twice
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

auto f(const tensor<float, 3>& x) { return attention(x, x, x, causal, scaled(2.0), causal); }
