// expect: error
// match: \[moveaxis\] name as many places as axes
// lines: 25
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 3>& x) { return moveaxis(x, axis<0, 1>, axis<2>); }
