// expect: error
// match: summ
// absent: does not take|takes the carry|takes a tensor
// lines: 10
#include <sinter/sinter.hpp>

using namespace sinter;
auto wrong(tensor<float, 1> a) {
  return grad([](tensor<float, 1> x) { return summ(x); })(a);
}
