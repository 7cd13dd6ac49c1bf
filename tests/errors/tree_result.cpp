// expect: error
// match: the function's result does not fit the struct's field
// lines: 50
#include <sinter/sinter.hpp>

struct weights {
  sinter::tensor<float, 1> w;
};

auto f(const weights& p) {
  return sinter::tree_map([](auto x) { return x.numel(); }, p);
}
