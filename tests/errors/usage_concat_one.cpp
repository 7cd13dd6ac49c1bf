// expect: error
// match: \[concat\] is called as concat\(x, y, axis<0>\) or concat<0>\(vector\)
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x) { return concat(x); }
