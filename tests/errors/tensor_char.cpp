// expect: error
// match: \[tensor\] the dtypes are float, double
// lines: 40

#include <sinter/sinter.hpp>

sinter::tensor<char, 1> wrong;
