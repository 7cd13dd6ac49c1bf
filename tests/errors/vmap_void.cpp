// expect: error
// match: \[vmap\] the function returns nothing
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

auto f(const tensor<float, 2>& x) {
  return vmap([](tensor<float, 1> row) { host_call([](tensor<float, 1>) {}, row); })(x);
}
