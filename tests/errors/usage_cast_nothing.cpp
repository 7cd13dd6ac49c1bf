// expect: error
// match: \[cast\] is called as cast<float>\(x\)
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x) { return cast(x); }
