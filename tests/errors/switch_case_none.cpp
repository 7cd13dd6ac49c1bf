// expect: error
// match: \[switch_case\] there is no branch
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

void f(int i, const tensor<float, 1>& x) { switch_case(i, std::tuple<>(), x); }
