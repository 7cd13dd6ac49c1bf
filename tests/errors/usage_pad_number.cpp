// expect: error
// match: \[pad\] is called as pad\(x, \{\{before, after\}, \.\.\.\}\)
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x) { return pad(x, 1); }
