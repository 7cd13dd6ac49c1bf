// expect: error
// match: \[matmul\] is called as matmul\(x, y\), both of them tensors
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x) { return matmul(x, 2.f); }
