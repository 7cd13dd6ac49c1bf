// expect: error
// match: \[take\] the index is neither i32 nor i64; cast
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a, tensor<float, 1> i) { return take(a, i, axis<0>); }
