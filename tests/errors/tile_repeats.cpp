// expect: error
// match: \[tile\] a number of repeats is negative
// lines: 20

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, dims{4, 3}> a) { return tile<dims{-2, 1}>(a); }
