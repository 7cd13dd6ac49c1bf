// expect: error
// match: \[gamma, beta, poisson, dirichlet\] take and give floating dtypes
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<int, 1>& x) { return gamma(make_key(1), x); }
