// expect: error
// match: \[sum\] is called as .*sum\(x, axis<0>\).*; axes are types
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> x) { return sum(x, {0, 1}); }
