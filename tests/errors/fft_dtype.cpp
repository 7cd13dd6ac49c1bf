// expect: error
// match: \[fft\] takes float, double, complex64 or complex128; cast with cast<float>\(x\)
// lines: 20

#include <sinter/fft.hpp>

using namespace sinter;

auto wrong(tensor<std::int32_t, 1> x) { return fft::fft(x); }
