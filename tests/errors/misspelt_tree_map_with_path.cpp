// expect: error
// match: summ
// absent: does not take|takes the carry|takes a tensor
// lines: 60
#include <sinter/sinter.hpp>

using namespace sinter;
auto wrong(tensor<float, 1> a) {
  return tree_map_with_path([](const auto& path, auto x) { return summ(x, path); }, std::pair{a, 3});
}
