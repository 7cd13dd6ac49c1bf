// expect: error
// match: \[switch_case\] one branch returns nothing, another a value
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

auto f(int i, const tensor<float, 1>& x) {
  return switch_case(i, std::tuple{[](tensor<float, 1> x) { return x; }, [](tensor<float, 1>) {}}, x);
}
