// expect: error
// match: \[conv\] the static shapes do not fit
// lines: 20

#include <sinter/windows.hpp>

using namespace sinter;

auto wrong(tensor<float, dims{1, 4, 2, 9}> x, tensor<float, dims{8, 4, 3, 3}> w) {
  return conv2d<conv_options{}>(x, w);
}
