// expect: error
// match: \[grad\] the function has no such argument
// lines: 60
#include <sinter/sinter.hpp>

auto f(const sinter::tensor<float, 1>& x) {
  return sinter::grad<1>([](auto x) { return sinter::sum(x); })(x);
}
