// expect: error
// match: \[bincount\] the index is neither i32 nor i64
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> a) { return bincount(a, {.size = 3}); }
