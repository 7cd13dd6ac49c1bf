// expect: error
// match: \[conv\] image and weights have different dtypes; cast one with cast<T>\(x\)
// lines: 20

#include <sinter/windows.hpp>

using namespace sinter;

auto wrong(tensor<float, 4> x, tensor<double, 4> w) { return conv2d(x, w); }
