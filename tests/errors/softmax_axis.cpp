// expect: error
// match: \[softmax\] an axis is out of range
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a) { return softmax<2>(a); }
