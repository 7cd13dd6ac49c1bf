// expect: error
// match: \[cross_entropy\] the index is neither i32 nor i64
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a, tensor<float, 1> i) { return cross_entropy(a, i); }
