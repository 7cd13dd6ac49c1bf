// expect: error
// match: \[mul\] the operands have different dtypes; cast one of them with cast<T>\(x\)
// lines: 26

#include <sinter/sinter.hpp>

using namespace sinter;

void wrong(tensor<float, 1> a, tensor<double, 1> b) { a *= b; }
