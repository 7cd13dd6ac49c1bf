// expect: error
// match: summ
// absent: does not take|takes the carry|takes a tensor
// lines: 50
#include <sinter/sinter.hpp>

using namespace sinter;
auto wrong(tensor<float, 1> a) {
  return fori_loop(
      0, 3, [](auto, auto x) { return summ(x); }, a);
}
