// expect: error
// match: \[vmap\] the items of a stacked<S> lie along axis 0
// first: 3
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

struct linear {
  tensor<float, 2> w;
};

auto f(const stacked<linear>& p) {
  return vmap([](linear p) { return sum(p.w); }, in_axes<1>)(p);
}
