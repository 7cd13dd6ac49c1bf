// expect: error
// match: \[tensor\] of extents is zeros<float>\(3, 4\)
// lines: 18
#include <sinter/sinter.hpp>

using namespace sinter;
auto wrong() { return tensor(3, 4); }
