// expect: error
// match: \[matmul\] the operands have different dtypes
// lines: 40
#include <sinter/nn.hpp>

using namespace sinter;
auto f(const nn::linear<bf16>& l, const tensor<float, 2>& x) { return l(x); }
