// expect: error
// match: \[fori_loop\] the body takes a tensor<std::int64_t, 0> and the carry
// first: 3
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  return fori_loop(
      0, 3, [](tensor<float, 1> c, auto) { return c; }, x);
}
