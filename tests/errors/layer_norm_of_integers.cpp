// expect: error
// match: \[layer_norm\] takes a floating dtype
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<int, 2> a) { return layer_norm(a); }
