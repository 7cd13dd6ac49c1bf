// expect: error
// match: \[bincount\] takes numbers, not bool
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<int, 1>& labels, const tensor<bool, 1>& w) { return bincount(labels, w); }
