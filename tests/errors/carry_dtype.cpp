// expect: error
// match: the body returns a carry of another dtype or rank than it was given
// lines: 60
#include <sinter/sinter.hpp>

auto f(sinter::tensor<float, 1> x) {
  return sinter::fori_loop(
      0, 3, [](auto, auto c) { return sinter::cast<double>(c); }, x);
}
