// expect: error
// match: the keys of a std::map in a tree are std::string
// lines: 40
#include <map>

#include <sinter/sinter.hpp>

auto f(const std::map<int, sinter::tensor<float, 1>>& p) {
  return sinter::tree_map([](auto x) { return x; }, p);
}
