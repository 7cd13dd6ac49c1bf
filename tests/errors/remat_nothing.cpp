// expect: error
// match: \[remat\] the function returns nothing
// lines: 60
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  remat([](tensor<float, 1>) {})(x);
}
