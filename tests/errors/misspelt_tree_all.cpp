// expect: error
// match: is_finite
// absent: does not take|takes the carry|takes a tensor
// lines: 60
#include <sinter/sinter.hpp>

using namespace sinter;
auto wrong(tensor<float, 1> a) {
  return tree_all([](auto x) { return is_finite(x); }, std::pair{a, 3});
}
