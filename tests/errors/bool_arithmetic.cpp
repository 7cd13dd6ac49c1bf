// expect: error
// match: takes numbers, not bool; cast with cast<T>\(x\)
// match: mul
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<bool, 2> a, tensor<bool, 2> b) { return a * b; }
