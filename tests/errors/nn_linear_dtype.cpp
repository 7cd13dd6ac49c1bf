// expect: error
// match: \[nn::linear\] x and the layer's weights have different dtypes
// first: 3
// lines: 24, clang++ 32
#include <sinter/nn.hpp>

using namespace sinter;
auto f(const nn::linear<bf16>& l, const tensor<float, 2>& x) { return l(x); }
