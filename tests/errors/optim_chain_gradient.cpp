// expect: error
// match: \[optim::chain\] is called as update\(p, g, state\)
// first: 3
// lines: 24
#include <sinter/optim.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> p, tensor<float, 1> g) {
  const auto opt = optim::chain(optim::clip_by_global_norm(1), optim::adam());
  return opt.update(p, g, opt.init(p));
}
