// expect: error
// match: \[fft\] the axis is out of range for the tensor's rank
// lines: 25

#include <sinter/fft.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> x) { return fft::ifft(x, axis<2>); }
