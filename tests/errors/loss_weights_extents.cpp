// expect: error
// match: \[nn\] the static shape of weights is not the number of classes
// lines: 30
#include <sinter/nn.hpp>

using namespace sinter;
auto f(const tensor<float, dims{2, 3}>& x, const tensor<std::int64_t, dims{2}>& y, const tensor<float, dims{5}>& w) {
  return nn::cross_entropy(x, y, w);
}
