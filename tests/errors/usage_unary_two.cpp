// expect: error
// match: \[tanh\] is called as tanh\(x\), x a tensor
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x) { return tanh(x, x); }
