// expect: error
// match: \[tensor\] a rank of 0 to 12 or a static shape stands behind the dtype
// lines: 30

#include <sinter/sinter.hpp>

sinter::tensor<float, -1> wrong;
