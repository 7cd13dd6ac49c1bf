// expect: error
// match: \[compile\] takes a function
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong() { return compile(42); }
