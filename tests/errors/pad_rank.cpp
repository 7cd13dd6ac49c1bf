// expect: error
// match: \[pad\] give one low and one high width
// lines: 20

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, dims{4, 3}> a) { return pad<dims{1}, dims{1}>(a); }
