// expect: error
// match: \[custom_vjp\] backward returns a cotangent for each argument with floating tensors, like it
// lines: 60
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  auto f = custom_vjp([](tensor<float, 1> v) { return v; },
                      [](tensor<float, 1> v) {
                        return std::pair{v, v};
                      },
                      [](tensor<float, 1>, tensor<float, 1> ct) { return sum(ct); });
  return grad([=](tensor<float, 1> v) { return sum(f(v)); })(x);
}
