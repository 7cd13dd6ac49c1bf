// expect: error
// match: a struct in a tree has no bit-fields; make them whole fields
// lines: 40
#include <sinter/sinter.hpp>

struct weights {
  sinter::tensor<float, 1> w;
  int heads : 4;
  int layers;
};

auto f(const weights& p) {
  return sinter::tree_map([](auto x) { return x; }, p);
}
