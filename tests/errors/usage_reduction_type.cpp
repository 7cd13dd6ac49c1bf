// expect: error
// match: \[sum\] is called as sum\(x\), sum\(x, axis<0>\) or sum\(x, axis<0>, keepdims\)
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x) { return sum<double>(x); }
