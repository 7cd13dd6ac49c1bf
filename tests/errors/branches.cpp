// expect: error
// match: the branches return other structures, dtypes or ranks
// lines: 60
#include <sinter/sinter.hpp>

auto f(sinter::tensor<float, 0> p, sinter::tensor<float, 1> x) {
  return sinter::cond(
      p > 0.0f, [&] { return x; }, [&] { return sum(x); });
}
