// expect: error
// match: \[nn::linear\] is made by init\(key, inputs, outputs\)
// first: 3
// lines: 24, clang++ 16
#include <sinter/nn.hpp>

using namespace sinter;

auto wrong() { return nn::linear<float>::init(3, 4); }
