// expect: error
// match: \[nn::dropout\] is called as drop\(x\), drop not const
// first: 3
// lines: 24
#include <sinter/nn.hpp>

using namespace sinter;

auto wrong(const nn::dropout& drop, tensor<float, 2> x) { return drop(x); }
