// expect: error
// match: \[optim::adam\] is called as update\(p, g, state\): g has the structure and ranks of p
// first: 3
// lines: 24
#include <sinter/optim.hpp>

using namespace sinter;

struct model {
  tensor<float, 2> w;
};
auto wrong(model p, tensor<float, 2> x) {
  const optim::adam opt;
  const auto s = opt.init(p);
  const auto pair = value_and_grad([](model m, tensor<float, 2> y) { return sum(matmul(y, m.w)); })(p, x);
  return opt.update(p, pair, s);
}
