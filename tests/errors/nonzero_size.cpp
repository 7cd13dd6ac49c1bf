// expect: error
// match: \[nonzero\] a size is an option: nonzero\(x, \{\.size = n\}\)
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(i64_1 a) { return nonzero(a, 3); }
