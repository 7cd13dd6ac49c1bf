// expect: error
// match: \[tree_dot\] the tree holds no floating tensor
// lines: 40
#include <sinter/sinter.hpp>

auto f(const std::vector<sinter::tensor<std::int64_t, 1>>& p) { return sinter::tree_dot(p, p); }
