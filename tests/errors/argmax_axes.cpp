// expect: error
// match: \[argmax, argmin\] name one axis
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a) { return argmax(a, axis<0, 1>); }
