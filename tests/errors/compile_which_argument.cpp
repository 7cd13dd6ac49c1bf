// expect: error
// match: \[compile\] the function does not take these arguments
// match: mismatch<sinter::detail::told::argument<1>, sinter::detail::told::is<float, 2>, sinter::detail::told::wants<double, 1>
// first: 3
// lines: 16
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x, tensor<float, 2> y) {
  return compile([](tensor<float, 1> a, tensor<double, 1> b) { return sum(a); })(x, y);
}
