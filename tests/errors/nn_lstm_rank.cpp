// expect: error
// match: \[nn::lstm, nn::gru\] take \(batch, places, features\) of their own dtype
// lines: 40
#include <sinter/nn.hpp>

using namespace sinter;
auto f(const nn::lstm<float>& l, const tensor<float, 2>& x) { return l(x); }
