// expect: error
// match: \[scatter_set\] the index is neither i32 nor i64
// lines: 48

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> a, tensor<float, 1> i) { return scatter_set(a, i, a); }
