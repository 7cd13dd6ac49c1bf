// expect: error
// match: \[norm\] is called as .*norm<1>\(x, axis<0>, keepdims\); axes are types
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto wrong(const tensor<float, 2>& x) { return norm<1>(x, 0); }
