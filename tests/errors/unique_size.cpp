// expect: error
// match: \[unique\] a size is an option: unique\(x, \{\.size = n\}\)
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(i64_1 a) { return unique(a, 3); }
