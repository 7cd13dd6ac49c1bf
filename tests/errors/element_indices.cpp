// expect: error
// match: \[element access\] give one index for each axis
// lines: 20

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a) { return a(1); }
