// expect: error
// match: \[linalg\] takes square matrices: the last two extents have to be equal
// lines: 30

#include <sinter/linalg.hpp>

using namespace sinter;

auto wrong(tensor<float, dims{2, 3}> a) { return linalg::cholesky(a); }
