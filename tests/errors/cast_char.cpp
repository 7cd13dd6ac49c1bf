// expect: error
// match: \[cast\] the dtypes are float
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x) { return cast<char>(x); }
