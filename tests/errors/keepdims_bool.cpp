// expect: error
// match: \[mean\] is called as .*mean\(x, axis<0>, keepdims\).*; axes are types
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x) { return mean(x, axis<0>, true); }
