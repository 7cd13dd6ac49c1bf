// expect: error
// match: \[reshape\] is called as reshape\(x, 3, 4\)
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<double, 2>& x) { return reshape(x, "a"); }
