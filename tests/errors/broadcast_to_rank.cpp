// expect: error
// match: \[broadcast_to\] the result has fewer axes than the tensor
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<double, 2>& x) { return broadcast_to(x, 3); }
