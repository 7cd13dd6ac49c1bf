// expect: error
// match: \[nn::dropout\] is made of a rate and a key
// first: 3
// lines: 24
#include <sinter/nn.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> x) { return nn::dropout(0.5)(x); }
