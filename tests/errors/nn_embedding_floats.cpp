// expect: error
// match: \[nn::embedding\] takes integers
// lines: 40
#include <sinter/nn.hpp>

using namespace sinter;
auto f(const nn::embedding<float>& e, const tensor<float, 1>& x) { return e(x); }
