// expect: error
// match: \[mse_loss\] the operands have different dtypes; cast one of them with cast<T>\(x\)
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> a, tensor<double, 1> b) { return mse_loss(a, b); }
