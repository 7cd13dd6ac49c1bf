// expect: error
// match: \[at\] the value has more axes than the part of the tensor
// lines: 48

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a, tensor<float, 2> y) { return a.at(0).set(y); }
