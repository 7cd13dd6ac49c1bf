// expect: error
// match: \[compile\] the function does not take these arguments
// match: mismatch<(sinter::)?detail::told::argument<1>, (sinter::)?detail::told::is<double, 1>, (sinter::)?detail::told::wants<float, 1>
// first: 3
// lines: 16
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x, tensor<double, 1> y) {
  const auto sum_of = [](auto a, auto b) requires(std::is_same_v<decltype(a), decltype(b)>) { return a + b; };
  return compile(sum_of)(x, y);
}
