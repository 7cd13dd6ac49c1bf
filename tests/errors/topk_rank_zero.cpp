// expect: error
// match: \[topk\] an axis is out of range
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 0> a) { return topk(a, 1); }
