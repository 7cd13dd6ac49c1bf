// expect: error
// match: the trees differ: containers, array lengths and numbers of fields must be equal
// lines: 50
#include <sinter/sinter.hpp>

using vec = sinter::tensor<float, 1>;

auto f(const std::tuple<vec, vec>& p, const std::tuple<vec, std::vector<vec>>& g) {
  return sinter::tree_map([](auto a, auto b) { return a - b; }, p, g);
}
