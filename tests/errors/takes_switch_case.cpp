// expect: error
// match: \[switch_case\] a branch does not take these arguments
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

auto f(int i, const tensor<float, 1>& x) {
  return switch_case(i, std::tuple{[](tensor<float, 1> x) { return x; }, [](tensor<float, 2> x) { return x; }}, x);
}
