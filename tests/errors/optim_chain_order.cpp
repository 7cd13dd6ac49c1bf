// expect: error
// match: \[optim::chain\] before the optimizer, which comes last, stand links
// lines: 40
#include <sinter/optim.hpp>

using namespace sinter;
auto f() { return optim::chain(optim::sgd(), optim::adam()); }
