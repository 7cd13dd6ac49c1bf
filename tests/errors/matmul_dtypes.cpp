// expect: error
// match: \[matmul\].*dtypes; cast
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a, tensor<double, 2> b) { return matmul(a, b); }
