// expect: error
// match: \[one_hot\] the result would have more than 12 axes
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<int, 12>& x) { return one_hot(x, 3); }
