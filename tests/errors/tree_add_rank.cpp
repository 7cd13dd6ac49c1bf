// expect: error
// match: \[tree\] a leaf of one tree has another rank than that of the other
// lines: 50
#include <sinter/sinter.hpp>

auto f(const std::vector<sinter::tensor<float, 1>>& p, const std::vector<sinter::tensor<float, 2>>& g) {
  return sinter::tree_add(p, g);
}
