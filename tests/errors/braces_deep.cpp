// expect: error
// match: \[tensor\] the braces nest deeper than
// lines: 20

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong() { return tensor<float, 1>{{1, 2}, {3, 4}}; }
