// expect: error
// match: \[concat\] is called as .*concat.*; axes are types
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x, [[maybe_unused]] const tensor<std::int64_t, 1>& i) { return concat(x, x, 1); }
