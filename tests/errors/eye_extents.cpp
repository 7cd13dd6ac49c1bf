// expect: error
// match: \[eye\] write both extents, eye<T, dims\{3, 4\}>\(\)
// lines: 20

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong() { return eye<float, dims{3}>(); }
