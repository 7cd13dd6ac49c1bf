// expect: error
// match: \[uniform\] is called as uniform<float>\(key, 3, 4\)
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;
auto f() { return uniform<float>(3, 4); }
