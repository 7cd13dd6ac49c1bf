// expect: error
// match: \[nn::self_attention\] a cache has one axis more than x
// lines: 40
#include <sinter/nn.hpp>

using namespace sinter;
auto f(const nn::self_attention<float>& a, const tensor<float, 2>& x, const attention_cache<float>& c) {
  return a(x, c);
}
