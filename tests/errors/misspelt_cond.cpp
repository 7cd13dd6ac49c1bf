// expect: error
// match: summ
// absent: does not take|takes the carry|takes a tensor
// lines: 50
#include <sinter/sinter.hpp>

using namespace sinter;
auto wrong(tensor<float, 1> a) {
  return cond(
      true, [](auto x) { return summ(x); }, [](auto x) { return x; }, a);
}
