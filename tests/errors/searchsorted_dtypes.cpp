// expect: error
// match: \[searchsorted\] sorted and x have different dtypes
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<double, 1> s, tensor<float, 1> a) { return searchsorted(s, a); }
