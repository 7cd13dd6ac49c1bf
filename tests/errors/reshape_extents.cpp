// expect: error
// match: \[reshape\] the static shape X has another number of elements
// lines: 26

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, dims{2, 3}> a) { return reshape<dims{4, 2}>(a); }
