// expect: error
// match: \[fold_in\] takes a number, or a tensor of rank 0 of integers
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const key& k, const tensor<float, 0>& x) { return fold_in(k, x); }
