// expect: error
// match: \[linalg\] both operands have one dtype; cast one with cast<T>\(x\)
// lines: 30

#include <sinter/linalg.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a, tensor<double, 2> y) { return linalg::solve(a, y); }
