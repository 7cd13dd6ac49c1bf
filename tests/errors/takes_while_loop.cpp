// expect: error
// match: \[while_loop\] test and body take the carry
// lines: 16
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<double, 2>& x) {
  return while_loop([](tensor<float, 2> t) { return any(t > 0); }, [](tensor<double, 2> t) { return t; }, x);
}
