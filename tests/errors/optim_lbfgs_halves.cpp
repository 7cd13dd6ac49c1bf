// expect: error
// match: \[optim::lbfgs\] takes parameters of f32 or f64
// lines: 40
#include <sinter/optim.hpp>

using namespace sinter;
auto f(const std::tuple<tensor<bf16, 1>>& p) { return optim::lbfgs().init(p); }
