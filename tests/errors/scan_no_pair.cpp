// expect: error
// match: \[scan\] f returns a pair: the next carry, and what is stacked
// first: 3
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x, tensor<float, 2> xs) {
  const auto [last, all] = scan([](const auto& c, const auto& r) { return c + r; }, x, xs);
  return last + all;
}
