// expect: error
// match: \[where\] the operands have different dtypes; cast one of them with cast<T>\(x\)
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> a, tensor<double, 1> b) { return where(a > 0, a, b); }
