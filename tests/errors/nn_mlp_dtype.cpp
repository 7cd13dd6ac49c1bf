// expect: error
// match: \[nn::mlp\] x and the layer's weights have different dtypes
// first: 3
// lines: 24, clang++ 32
#include <sinter/nn.hpp>

using namespace sinter;

auto wrong(const nn::mlp<float>& layers, const tensor<double, 2>& x) { return layers(x); }
