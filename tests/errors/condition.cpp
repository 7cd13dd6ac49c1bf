// expect: error
// match: condition must be bool
// match: select
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<int, 2> c, tensor<float, 2> a) { return where(c, a, 0); }
