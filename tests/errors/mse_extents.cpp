// expect: error
// match: \[mse_loss\] the static extents do not broadcast
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, dims{2}> a, tensor<float, dims{3}> b) { return mse_loss(a, b); }
