// expect: error
// match: a struct in a tree does not hold itself, in a vector or a map
// lines: 45
#include <sinter/sinter.hpp>

struct node {
  sinter::tensor<float, 1> w;
  std::vector<node> children;
};

auto f(const node& p) {
  return sinter::tree_map([](auto x) { return x; }, p);
}
