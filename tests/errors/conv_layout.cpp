// expect: error
// match: \[conv\] write the image's axes with n and c
// lines: 20

#include <sinter/windows.hpp>

using namespace sinter;

auto wrong(tensor<float, 4> x, tensor<float, 4> w) { return conv<"nhwc,hwo->nhwc">(x, w); }
