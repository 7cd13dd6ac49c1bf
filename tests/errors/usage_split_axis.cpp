// expect: error
// match: \[split\] is called as split\(x, sections, axis<0>\)
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x) { return split<1>(x); }
