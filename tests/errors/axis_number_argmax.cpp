// expect: error
// match: \[argmax\] axes are types: argmax
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x) { return argmax(x, 0); }
