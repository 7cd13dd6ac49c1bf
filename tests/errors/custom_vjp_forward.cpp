// expect: error
// match: \[custom_vjp\] forward returns two results: the value, and what backward needs
// lines: 60
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  auto f = custom_vjp([](tensor<float, 1> v) { return v; }, [](tensor<float, 1> v) { return v; },
                      [](tensor<float, 1>, tensor<float, 1> ct) { return ct; });
  return grad([=](tensor<float, 1> v) { return sum(f(v)); })(x);
}
