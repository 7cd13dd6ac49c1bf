// expect: error
// match: \[searchsorted\] sorted has rank 1, or the rank of x
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> s, tensor<float, 1> a) { return searchsorted(s, a); }
