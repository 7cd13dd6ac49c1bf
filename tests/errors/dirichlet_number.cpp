// expect: error
// match: \[dirichlet\] takes a tensor of parameters, those of a vector along its last axis
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 0>& x) { return dirichlet(make_key(1), x); }
