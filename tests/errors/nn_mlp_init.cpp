// expect: error
// match: \[nn::mlp\] is made by init\(key, {widths}\)
// first: 3
// lines: 24, clang++ 16
#include <sinter/nn.hpp>

using namespace sinter;

auto wrong() { return nn::mlp<float>::init({3, 4}); }
