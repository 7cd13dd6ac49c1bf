// expect: error
// match: \[transpose\] axes are types: transpose
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x) { return transpose(x, 0, 1); }
