// expect: error
// match: \[trace\] takes a function
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong() { return trace(42); }
