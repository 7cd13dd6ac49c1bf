// expect: error
// match: \[pad\] a width is negative
// lines: 20

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, dims{4, 3}> a) { return pad<dims{1, 0}, dims{-1, 0}>(a); }
