// expect: error
// match: \[unstack\] a struct has no place for tensors of one axis less
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

struct linear {
  tensor<float, 2> w;
};

auto f(const linear& p) { return unstack(p); }
