// expect: error
// match: \[complex\] complex numbers are std::complex<float> and std::complex<double>
// lines: 20

#include <sinter/complex.hpp>

using namespace sinter;

auto wrong(tensor<std::complex<int>, 1> z) { return z.size(0); }
