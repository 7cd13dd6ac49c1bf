// expect: error
// match: a struct in a tree does not hold itself, in a vector or a map
// lines: 50
#include <map>

#include <sinter/sinter.hpp>

struct node {
  sinter::tensor<float, 1> w;
  std::map<std::string, node> children;
};

auto f(const std::vector<node>& p) {
  return sinter::compile([](const std::vector<node>& x) { return x; })(p);
}
