// expect: error
// match: \[mean\] axes are types: .* mean\(x, axis<0>, keepdims\)
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x) { return mean(x, axis<0>, true); }
