// expect: error
// match: f returns a pair: the next carry, and what is stacked
// lines: 80
#include <sinter/sinter.hpp>

auto f(sinter::tensor<float, 1> x, sinter::tensor<float, 2> xs) {
  return sinter::scan([](auto c, auto r) { return sinter::tensor<float, 1>(c + r); }, x, xs);
}
