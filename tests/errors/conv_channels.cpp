// expect: error
// match: \[conv\] the static channels of image and weights do not fit
// lines: 20

#include <sinter/windows.hpp>

using namespace sinter;

auto wrong(tensor<float, dims{1, 3, dyn, dyn}> x, tensor<float, dims{8, 4, 3, 3}> w) { return conv2d(x, w); }
