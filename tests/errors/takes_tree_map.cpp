// expect: error
// match: \[tree_map\] the function does not take every leaf
// lines: 36
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<double, 2>& x) {
  return tree_map([](tensor<float, 2> t) { return t; }, std::array{x, x});
}
