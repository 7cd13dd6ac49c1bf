// expect: error
// match: \[cast\] a complex number is no real one; cast real\(z\), imag\(z\) or abs\(z\)
// lines: 20

#include <sinter/complex.hpp>

using namespace sinter;

auto wrong(tensor<complex64, 1> z) { return cast<float>(z); }
