// expect: error
// match: \[meshgrid\] is called as meshgrid\(x, y\)
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 1>& x) { return meshgrid(x, 3); }
