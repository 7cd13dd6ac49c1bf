// expect: error
// match: the function's result does not fit the struct's field
// match: (inner::gain|value\.gain)
// lines: 75
#include <sinter/sinter.hpp>

struct inner {
  sinter::tensor<float, 1> gain;
};
template <class T>
struct outer {
  sinter::tensor<T, 1> w;
  std::vector<inner> more;
};

auto f(const outer<float>& p) { return sinter::cast_tree<sinter::bf16>(p); }
