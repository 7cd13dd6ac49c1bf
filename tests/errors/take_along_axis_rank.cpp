// expect: error
// match: \[take_along_axis\] the index has another rank
// lines: 26

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a, tensor<int, 1> i) { return take_along_axis(a, i); }
