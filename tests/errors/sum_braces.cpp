// expect: error
// match: \[sum\] axes are types: sum\(x, axis<0>\)
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> x) { return sum(x, {0, 1}); }
