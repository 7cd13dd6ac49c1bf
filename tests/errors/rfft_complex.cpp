// expect: error
// match: \[rfft\] takes real numbers; of complex ones write fft::fft\(z\)
// lines: 20

#include <sinter/fft.hpp>

using namespace sinter;

auto wrong(tensor<complex64, 1> z) { return fft::rfft(z); }
