// expect: error
// match: \[concat\] the ranks differ
// lines: 30, clang++ 34

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a, tensor<float, 3> b) { return concat<0>(a, b); }
