// expect: error
// match: \[slice\] the step is 0
// lines: 20

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, dims{4, 3}> a) { return slice<0, 1, 3, 0>(a); }
