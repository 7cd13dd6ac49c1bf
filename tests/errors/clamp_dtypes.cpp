// expect: error
// match: \[clamp\] the operands have different dtypes; cast one of them with cast<T>\(x\)
// lines: 26

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> a, tensor<double, 1> b) { return clamp(a, b, 1); }
