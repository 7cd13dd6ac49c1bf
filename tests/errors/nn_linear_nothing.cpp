// expect: error
// match: \[nn::linear\] is called as layer\(x\), x a tensor
// first: 3
// lines: 24
#include <sinter/nn.hpp>

using namespace sinter;

auto wrong(const nn::linear<float>& layer) { return layer(); }
