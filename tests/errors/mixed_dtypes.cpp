// expect: error
// match: \[add\] the operands have different dtypes; cast one of them with cast<T>\(x\)
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a, tensor<double, 2> b) { return a + b; }
