// expect: error
// match: \[attention\] q, k and v have different dtypes
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

auto f(const tensor<float, 3>& x, const tensor<double, 3>& y) { return attention(x, y, y, causal); }
