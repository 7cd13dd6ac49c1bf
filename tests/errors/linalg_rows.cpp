// expect: error
// match: \[linalg\] the right side has other rows than the matrix
// lines: 30

#include <sinter/linalg.hpp>

using namespace sinter;

auto wrong(tensor<float, dims{3, 3}> a, tensor<float, dims{2, 1}> y) { return linalg::solve(a, y); }
