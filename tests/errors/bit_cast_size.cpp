// expect: error
// match: \[bit_cast\] gives a dtype of the same size, and neither takes nor gives bool
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 1>& x) { return bit_cast<std::int64_t>(x); }
