// expect: error
// match: \[block_diag\] the dtypes differ; cast one
// lines: 20, clang++ 24
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x, const tensor<double, 2>& y) { return block_diag(x, y); }
