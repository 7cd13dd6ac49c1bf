// expect: error
// match: a tree cannot hold a C array; use std::array
// lines: 50
#include <sinter/sinter.hpp>

struct weights {
  sinter::tensor<float, 1> w[2];
};

auto f(const weights& p) {
  return sinter::tree_map([](auto x) { return x; }, p);
}
