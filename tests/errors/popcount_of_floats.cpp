// expect: error
// match: \[popcount\] takes an integer dtype
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 1>& x) { return popcount(x); }
