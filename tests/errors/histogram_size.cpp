// expect: error
// match: \[histogram\] equal bins need their range: histogram\(x, bins, low, high\)
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(i64_1 a) { return histogram(a, 3); }
