// expect: error
// match: \[optim::chain\] the last of a chain is an optimizer
// lines: 40
#include <sinter/optim.hpp>

using namespace sinter;
auto f() { return optim::chain(optim::clip_by_value(1), optim::clip_by_global_norm(1)); }
