// expect: error
// match: \[attention\] after q, k, v come causal
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

auto f(const tensor<float, 3>& x) { return attention(x, x, x, 0.5); }
