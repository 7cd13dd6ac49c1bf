// expect: error
// match: \[nn\] labels are neither i32 nor i64
// lines: 30
#include <sinter/nn.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x, const tensor<float, 1>& y) { return nn::cross_entropy(x, y); }
