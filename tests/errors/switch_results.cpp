// expect: error
// match: \[switch_case\] the branches return other structures, dtypes or ranks
// first: 3
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x, tensor<int, 0> i) {
  return switch_case(i, std::tuple{[](tensor<float, 1> y) { return y; }, [](tensor<float, 1> y) { return sum(y); }}, x);
}
