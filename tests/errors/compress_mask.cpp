// expect: error
// match: \[compress\] the condition must be bool
// lines: 48

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> a, tensor<int, 1> m) { return compress(a, m, axis<0>, {.size = 3}); }
