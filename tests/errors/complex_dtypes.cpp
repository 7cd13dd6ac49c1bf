// expect: error
// match: \[complex\] beside complex64 stand complex64 and float, beside complex128 complex128 and double; cast one with cast<T>\(x\)
// lines: 20

#include <sinter/complex.hpp>

using namespace sinter;

auto wrong(tensor<complex64, 1> a, tensor<double, 1> b) { return a * b; }
