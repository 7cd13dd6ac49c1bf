// expect: error
// match: \[softmax\] is called as .*softmax.*; axes are types
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x) { return softmax(x, 0); }
