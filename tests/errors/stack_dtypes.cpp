// expect: error
// match: \[stack\] the dtypes differ; cast
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> a, tensor<double, 1> b) { return stack(a, b); }
