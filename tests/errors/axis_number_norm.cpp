// expect: error
// match: \[norm\] axes are types: norm<1>\(x, axis<0>\)
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto wrong(const tensor<float, 2>& x) { return norm<1>(x, 0); }
