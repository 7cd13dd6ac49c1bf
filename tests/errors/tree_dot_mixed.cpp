// expect: error
// match: a leaf is floating in one tree and not in the other
// lines: 24, clang++ 42
#include <sinter/sinter.hpp>

auto f(const sinter::tensor<float, 1>& x, const sinter::tensor<int, 1>& y) {
  return sinter::tree_dot(std::tuple{x}, std::tuple{y});
}
