// expect: error
// match: \[max\] complex numbers have no order; write max\(abs\(z\)\), or of real\(z\)
// lines: 20

#include <sinter/complex.hpp>

using namespace sinter;

auto wrong(tensor<complex64, 2> z) { return max(z, axis<0>); }
