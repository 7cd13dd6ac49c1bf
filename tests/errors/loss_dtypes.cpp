// expect: error
// match: \[nn\] the operands of a loss have different dtypes; cast one
// lines: 30
#include <sinter/nn.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x, const tensor<double, 2>& y) { return nn::huber(x, y, reduce::mean); }
