// expect: error
// match: \[stacked\] is of a struct: a stack of tensors is a tensor
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

stacked<tensor<float, 2>> f() { return {}; }
