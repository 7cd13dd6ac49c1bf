// expect: error
// match: \[nn\] the static shapes of scores and labels differ before the axis of classes
// lines: 30
#include <sinter/nn.hpp>

using namespace sinter;
auto f(const tensor<float, dims{2, 3}>& x, const tensor<std::int64_t, dims{4}>& y) { return nn::cross_entropy(x, y); }
