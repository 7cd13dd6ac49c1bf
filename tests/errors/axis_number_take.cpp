// expect: error
// match: \[take\] is called as .*take.*; axes are types
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x, [[maybe_unused]] const tensor<std::int64_t, 1>& i) { return take(x, i, 1); }
