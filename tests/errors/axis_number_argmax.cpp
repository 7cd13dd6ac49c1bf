// expect: error
// match: \[argmax\] is called as .*argmax\(x, axis<0>\).*; axes are types
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x) { return argmax(x, 0); }
