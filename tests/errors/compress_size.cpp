// expect: error
// match: \[compress\] a size is an option: compress\(x, mask, \{\.size = n\}\)
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(i64_1 a) { return compress(a, a > 1, 3); }
