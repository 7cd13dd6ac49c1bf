// expect: error
// match: another_dtype_or_rank_write_cast_or_reshape|\[tensor\] another dtype or rank
// first: 3
// lines: 16
#include <sinter/sinter.hpp>

using namespace sinter;

void wrong(tensor<float, 1> x) { tensor<double, 0> s = sum(x); }
