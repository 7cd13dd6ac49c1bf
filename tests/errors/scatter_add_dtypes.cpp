// expect: error
// match: \[scatter_add\] the operands have different dtypes; cast one
// lines: 47

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> a, tensor<int, 1> i, tensor<double, 1> u) { return scatter_add(a, i, u); }
