// expect: error
// match: a struct in a tree has no base class; make the base a field
// lines: 60
#include <sinter/sinter.hpp>

struct base {
  sinter::tensor<float, 1> w;
};
struct weights : base {
  sinter::tensor<float, 1> b;
};

auto f(const weights& p) { return sinter::tree_leaves(p); }
