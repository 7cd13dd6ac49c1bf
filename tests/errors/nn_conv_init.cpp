// expect: error
// match: \[nn::conv\] is made by init\(key, inputs, outputs, window\)
// first: 3
// lines: 24, clang++ 16
#include <sinter/nn.hpp>

using namespace sinter;

auto wrong() { return nn::conv<float, 2>::init(3, 4, 3); }
