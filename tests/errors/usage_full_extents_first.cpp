// expect: error
// match: \[full\] is called as full<float>\(1\.5f, 3, 4\)
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;
auto f() { return full<float>({2, 2}, 1.f); }
