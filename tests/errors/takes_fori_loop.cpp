// expect: error
// match: \[fori_loop\] the body takes a tensor<std::int64_t, 0> and the carry
// lines: 20, clang++ 16
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<double, 2>& x) {
  return fori_loop(
      0, 3, [](tensor<double, 2> t) { return t; }, x);
}
