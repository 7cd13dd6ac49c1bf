// expect: error
// match: \[nn::batch_norm\] is called as auto \[y, next\] = norm\(x, statistics, nn::training\)
// first: 3
// lines: 24
#include <sinter/nn.hpp>

using namespace sinter;

auto wrong(const nn::batch_norm<float>& norm, tensor<float, 2> x) { return norm(x); }
