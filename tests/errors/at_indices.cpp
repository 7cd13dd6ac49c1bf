// expect: error
// match: \[at\] gives more indices than four, or than the tensor has axes
// lines: 48

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> a, tensor<int, 1> i) { return a.at(i, i).set(1); }
