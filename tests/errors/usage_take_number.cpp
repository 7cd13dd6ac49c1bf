// expect: error
// match: \[take\] is called as take\(x, index, axis<0>\), the index a tensor
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x) { return take(x, 0.5); }
