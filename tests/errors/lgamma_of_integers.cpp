// expect: error
// match: \[lgamma\] takes a floating dtype
// lines: 20, clang++ 34
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<int, 2>& x) { return lgamma(x); }
