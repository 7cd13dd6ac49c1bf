// expect: error
// match: \[nn::dropout\] takes floating dtypes
// lines: 40
#include <sinter/nn.hpp>

using namespace sinter;
auto f(nn::dropout drop, const tensor<int, 2>& x) { return drop(x); }
