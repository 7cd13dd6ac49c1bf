// expect: error
// match: an expression kept by auto is none to assign to: tensor<T, rank> in place of auto
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;
void wrong(tensor<float, 1> a, tensor<float, 1> b) {
  auto h = a + b;
  h += a;
}
