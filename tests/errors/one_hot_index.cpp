// expect: error
// match: \[one_hot\] the index is neither i32 nor i64
// lines: 26

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> i) { return one_hot(i, 3); }
