// expect: error
// match: tensors have 0 to 8 axes
// lines: 30

#include <sinter/sinter.hpp>

sinter::tensor<float, -1> wrong;
