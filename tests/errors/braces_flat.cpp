// expect: error
// match: \[tensor\] the braces nest less deep than
// lines: 20

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong() { return tensor<float, 2>{1, 2}; }
