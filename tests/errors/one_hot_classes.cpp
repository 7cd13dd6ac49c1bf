// expect: error
// match: \[one_hot\] the number of classes is negative
// lines: 20

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<int, 1> i) { return one_hot<float, -1>(i); }
