// expect: error
// match: \[optim::sgd\] is called as update\(p, g, state\)
// first: 3
// lines: 24
#include <sinter/optim.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> p, tensor<float, 2> g) { return optim::sgd().update(p, g, optim::adam().init(p)); }
