// expect: error
// match: \[concat\] a real and a complex tensor; cast the real one with cast<complex64>\(x\)
// lines: 20

#include <sinter/complex.hpp>

using namespace sinter;

auto wrong(tensor<complex64, 1> z, tensor<float, 1> x) { return concat(x, z); }
