// expect: error
// match: \[tree_axpy\] the factor is a number or a floating tensor of rank 0; it comes first
// lines: 20
#include <sinter/sinter.hpp>

using params = std::vector<sinter::tensor<float, 1>>;
auto f(const params& p, const params& g) { return sinter::tree_axpy(p, g, 0.5f); }
