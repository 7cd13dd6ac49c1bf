// expect: error
// match: \[tree\] a leaf is floating in one tree and not in the other
// lines: 50
#include <sinter/sinter.hpp>

auto f(const std::tuple<sinter::tensor<std::int64_t, 1>>& p, const std::tuple<sinter::tensor<float, 1>>& g) {
  return sinter::tree_add(p, g);
}
