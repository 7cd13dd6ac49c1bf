// expect: error
// match: summ
// absent: does not take|takes the carry|takes a tensor
// lines: 46
#include <sinter/sinter.hpp>

using namespace sinter;
auto wrong(tensor<float, 0> c, tensor<float, 1> a) {
  return scan([](auto x, auto y) { return std::pair{summ(x), y}; }, c, a);
}
