// expect: error
// match: \[compile\] the function does not take these arguments
// match: mismatch<(sinter::)?detail::told::argument<1>, (sinter::)?detail::told::is<double, 1>, (sinter::)?detail::told::wants<float, 1>
// first: 3
// lines: 16
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x, tensor<double, 1> y) {
  return compile([]<class T>(const tensor<T, 1>& a, const tensor<T, 1>& b) { return a + b; })(x, y);
}
