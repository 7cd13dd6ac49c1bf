// expect: error
// match: \[cholesky\] takes real matrices; complex ones have solve, inv, pinv, lstsq, expm, matrix_power and
// lines: 20

#include <sinter/complex.hpp>
#include <sinter/linalg.hpp>

using namespace sinter;

auto wrong(tensor<complex64, 2> z) { return linalg::cholesky(z); }
