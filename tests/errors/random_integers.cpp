// expect: error
// match: \[uniform, normal, truncated_normal, exponential, laplace\] give floating dtypes; use randint
// lines: 45

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(const key& k) { return uniform<int>(k, 3); }
