// expect: error
// match: \[linspace\] is called as linspace<float>\(start, stop, count\)
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;
auto f() { return linspace<float>(0, 1); }
