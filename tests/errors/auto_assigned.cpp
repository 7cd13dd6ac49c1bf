// expect: error
// match: auto holds an expression.*: write tensor<T, rank> in place of auto
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
tensor<float, 1> f(const tensor<float, 1>& x) { return x * 2.f; }
void wrong(tensor<float, 1> a, tensor<float, 1> b) {
  auto h = a + b;
  h = f(h);
}
