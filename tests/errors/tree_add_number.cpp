// expect: error
// match: a leaf is a tensor in one tree and a number in the other
// lines: 24, clang++ 34
#include <sinter/sinter.hpp>

auto f(const sinter::tensor<float, 1>& x) { return sinter::tree_add(x, 1.f); }
