// expect: error
// match: \[vjp\] the function must return floating tensors; it returns nothing
// lines: 60
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  return vjp([](tensor<float, 1>) {})(x);
}
