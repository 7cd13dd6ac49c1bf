// expect: error
// match: \[cross_entropy\] labels have one axis less
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a, tensor<std::int64_t, 2> labels) { return cross_entropy(a, labels); }
