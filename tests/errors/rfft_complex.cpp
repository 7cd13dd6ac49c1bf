// expect: error
// match: \[rfft, ihfft\] takes real numbers; of complex ones write fft::fft\(z\), fft::ifft\(z\)
// lines: 20

#include <sinter/fft.hpp>

using namespace sinter;

auto wrong(tensor<complex64, 1> z) { return fft::rfft(z); }
