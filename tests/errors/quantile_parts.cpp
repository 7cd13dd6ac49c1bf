// expect: error
// match: \[quantile\] the parts are a number, a list, or a tensor of f64 of rank 0 or 1
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 1>& x) { return quantile(x, tensor<float, 1>{0.5f}); }
