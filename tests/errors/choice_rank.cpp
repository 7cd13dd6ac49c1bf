// expect: error
// match: \[choice\] takes rows of a tensor; it has rank 0
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 0> a) { return choice(make_key(1), a, 3); }
