// expect: error
// match: \[complex\] complex numbers have no order; compare abs\(z\), or real\(z\)
// lines: 20

#include <sinter/complex.hpp>

using namespace sinter;

auto wrong(tensor<complex64, 1> a, tensor<complex64, 1> b) { return a < b; }
