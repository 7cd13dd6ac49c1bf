// expect: error
// match: \[relu\] takes numbers, not bool
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<bool, 1> a) { return relu(a); }
