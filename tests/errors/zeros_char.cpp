// expect: error
// match: \[zeros\] the dtypes are float
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x) { return zeros<char>(3) + x; }
