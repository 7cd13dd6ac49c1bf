// expect: error
// match: \[tensor\] a rank of 0 to 12 or a static shape stands behind the dtype: tensor<float, 2>
// lines: 30

#include <sinter/sinter.hpp>

sinter::tensor<float> wrong;
