// expect: error
// match: \[broadcast_to\] an extent of X is neither 1 nor the wanted one
// lines: 26

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, dims{2, 3}> a) { return broadcast_to<dims{2, 4}>(a); }
