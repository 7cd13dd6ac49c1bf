// expect: error
// match: \[squeeze\] an axis of X to drop is not of extent 1
// lines: 26

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, dims{2, 3}> a) { return squeeze(a, axis<0>); }
