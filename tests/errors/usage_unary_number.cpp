// expect: error
// match: \[exp\] is called as exp\(x\), x a tensor
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(float x) { return sinter::exp(x); }
