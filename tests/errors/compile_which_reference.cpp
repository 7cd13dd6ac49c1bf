// expect: error
// match: \[compile\] the function does not take these arguments
// match: argument<0>, (sinter::)?detail::told::is<float, 1>, (sinter::)?detail::told::wants<sinter::tensor<float.*&
// first: 3
// lines: 16
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  return compile([](auto& a, auto& b) { return a + b; })(x, x);
}
