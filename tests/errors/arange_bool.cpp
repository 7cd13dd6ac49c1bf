// expect: error
// match: \[arange\] gives numbers, not bool; compare them, or use cast<bool>\(x\)
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong() { return arange<bool>(5); }
