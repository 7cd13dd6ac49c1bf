// expect: error
// match: \[compile\] the function does not take these arguments
// match: mismatch<(sinter::)?detail::told::argument<1>, (sinter::)?detail::told::is<float, 1>, (sinter::)?detail::told::wants<float, 2>
// first: 3
// lines: 16
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  return compile([](const auto&, tensor<float, 2> b, tensor<double, 3>) { return sum(b); })(x, x, x);
}
