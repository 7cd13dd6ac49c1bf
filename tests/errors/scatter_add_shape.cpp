// expect: error
// match: \[scatter_add\] the updates' shape does not follow from base and index
// lines: 47

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a, tensor<int, 1> i, tensor<float, 1> u) { return scatter_add(a, i, u); }
