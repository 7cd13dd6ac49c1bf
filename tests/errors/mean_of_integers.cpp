// expect: error
// match: floating dtype; cast with cast<float>\(x\)
// match: mean
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<int, 2> a) { return mean(a); }
