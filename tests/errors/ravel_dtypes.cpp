// expect: error
// match: \[ravel\] the floating tensors of a tree have one dtype, and there is at least one
// lines: 60
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x, tensor<double, 1> y) { return ravel(std::pair{x, y}); }
