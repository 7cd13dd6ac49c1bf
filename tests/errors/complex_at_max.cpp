// expect: error
// match: \[at\] complex numbers have no order: no .min, no .max
// lines: 20

#include <sinter/complex.hpp>

using namespace sinter;

auto wrong(tensor<complex64, 1> z) { return z.at(0).max(1); }
