// expect: error
// match: \[nn\] norms of channels take \(batch, channels, …\)
// lines: 40
#include <sinter/nn.hpp>

using namespace sinter;
auto f(const nn::group_norm<float>& n, const tensor<float, 1>& x) { return n(x); }
