// expect: error
// match: \[conv\] image and weights have the axes that the layout names
// lines: 20

#include <sinter/windows.hpp>

using namespace sinter;

auto wrong(tensor<float, 3> x, tensor<float, 4> w) { return conv2d(x, w); }
