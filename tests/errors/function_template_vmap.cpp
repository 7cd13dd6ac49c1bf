// expect: error
// match: of a function template, \[\]
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

template <class X>
auto total(const X& x) {
  return sum(x);
}

auto f(const tensor<float, 2>& x) { return vmap(total)(x); }
