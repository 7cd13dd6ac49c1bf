// expect: error
// match: auto holds an expression.*: write tensor<T, rank> in place of auto
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
void wrong(tensor<float, 1> a, tensor<float, 1> b) {
  auto h = a + b;
  h = h * 2.f;
}
