// expect: error
// match: \[custom_vjp\] the function returns nothing
// lines: 60
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  auto f = custom_vjp([](tensor<float, 1>) {},
                      [](tensor<float, 1> v) {
                        return std::pair{v, v};
                      },
                      [](tensor<float, 1>, tensor<float, 1> ct) { return ct; });
  f(x);
}
