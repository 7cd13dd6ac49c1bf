// expect: error
// match: \[nn::self_attention\] is called as layer\(x\)
// first: 3
// lines: 24
#include <sinter/nn.hpp>

using namespace sinter;

auto wrong(const nn::self_attention<float>& layer) { return layer(); }
