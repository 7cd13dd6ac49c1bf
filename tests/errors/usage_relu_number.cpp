// expect: error
// match: \[relu\] is called as relu\(x\), x a tensor
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(float x) { return relu(x); }
