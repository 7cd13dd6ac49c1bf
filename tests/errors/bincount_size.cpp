// expect: error
// match: \[bincount\] a size is an option: bincount\(labels, \{\.size = n\}\)
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(i64_1 a) { return bincount(a, 3); }
