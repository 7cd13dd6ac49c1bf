// expect: error
// match: \[layer_norm\] needs an axis
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 0> a) { return layer_norm(a); }
