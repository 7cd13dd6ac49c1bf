// expect: error
// match: \[custom_jvp\] the rule takes the arguments, then a tangent for each that has floating tensors
// lines: 60
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  auto f = custom_jvp([](tensor<float, 1> v) { return v; }, [](tensor<float, 1> v) { return std::pair{v, v}; });
  return jvp(f)(x, x);
}
