// expect: error
// match: \[rms_norm\] the operands have different dtypes; cast one of them with cast<T>\(x\)
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<bf16, 2> x, tensor<f16, 1> gamma) { return rms_norm(x, gamma); }
