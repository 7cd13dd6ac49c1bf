// expect: error
// match: \[switch_case\] the index is an integer of rank 0
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

auto f(const tensor<float, 0>& i, const tensor<float, 1>& x) {
  return switch_case(i, std::tuple{[](tensor<float, 1> x) { return x; }, [](tensor<float, 1> x) { return x; }}, x);
}
