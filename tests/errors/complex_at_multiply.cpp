// expect: error
// match: \[at\] multiply takes real factors; by complex ones write z.at\(i\).set\(take\(z, i\) \* y\) for
// lines: 20

#include <sinter/complex.hpp>

using namespace sinter;

auto wrong(tensor<complex64, 1> z) { return z.at(0).multiply(complex64(0, 1)); }
