// expect: error
// match: \[pool\] the tensor has fewer axes than the pool
// lines: 30

#include <sinter/windows.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) { return max_pool2d(x, 2); }
