// expect: error
// match: \[tree_scale\] the factor is a number or a floating tensor of rank 0; it comes first
// lines: 20
#include <sinter/sinter.hpp>

auto f(const std::vector<sinter::tensor<float, 1>>& p) { return sinter::tree_scale(p, 2.f); }
