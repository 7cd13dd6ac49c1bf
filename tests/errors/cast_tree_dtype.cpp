// expect: error
// match: \[cast_tree\] takes a floating dtype: float, double, f16 or bf16
// lines: 20
#include <sinter/sinter.hpp>

auto f(const sinter::tensor<float, 1>& p) { return sinter::cast_tree<std::int32_t>(p); }
