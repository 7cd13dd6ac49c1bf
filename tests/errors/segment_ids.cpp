// expect: error
// match: \[segment\] ids have rank 1
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> a, tensor<int, 2> i) { return segment_sum(a, i, 3); }
