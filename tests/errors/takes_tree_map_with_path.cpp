// expect: error
// match: \[tree_map_with_path\] the function does not take every leaf behind its path, a std::string
// lines: 40
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<double, 2>& x) {
  return tree_map_with_path([](tensor<double, 2> t) { return t; }, std::array{x, x});
}
