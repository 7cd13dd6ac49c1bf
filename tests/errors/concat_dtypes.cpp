// expect: error
// match: \[concat\] the dtypes differ; cast one with cast<T>\(x\)
// lines: 26

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> a, tensor<double, 1> b) { return concat(a, b); }
