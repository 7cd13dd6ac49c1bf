// expect: error
// match: \[jvp\] with has_aux the function must return two results: \(value, more\)
// lines: 60
#include <sinter/sinter.hpp>

auto f(const sinter::tensor<float, 1>& x) {
  return sinter::jvp([](auto x) { return sinter::sum(x); }, sinter::has_aux)(x, x);
}
