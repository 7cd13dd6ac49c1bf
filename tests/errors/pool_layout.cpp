// expect: error
// match: \[pool\] write the axes as letters, with n, c and one to three more
// lines: 30

#include <sinter/windows.hpp>

using namespace sinter;

auto wrong(tensor<float, 4> x) { return max_pool<"nhwx">(x, 2); }
