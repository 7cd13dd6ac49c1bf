// expect: error
// match: a carry holds tensors only
// lines: 60
#include <sinter/sinter.hpp>

auto f(sinter::tensor<float, 1> x) {
  return sinter::fori_loop(
      0, 3, [](auto, auto c) { return c; }, std::pair{x, 1.0f});
}
