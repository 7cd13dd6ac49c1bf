// expect: error
// match: \[nn\] attention takes \(…, places, features\) of a floating dtype
// lines: 40
#include <sinter/nn.hpp>

using namespace sinter;
auto f(const nn::self_attention<float>& a, const tensor<float, 1>& x) { return a(x, causal); }
