// expect: error
// match: \[cross_entropy\] takes a floating dtype; cast with cast<float>\(x\)
// lines: 26

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<int, 2> a, tensor<int, 1> i) { return cross_entropy(a, i); }
