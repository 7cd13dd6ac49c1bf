// expect: error
// match: \[compile\] the function does not take these arguments
// match: mismatch<(sinter::)?detail::told::argument<0>, (sinter::)?detail::told::is<double, 2>, (sinter::)?detail::told::wants<float, 2>
// first: 3
// lines: 16
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<double, 2>& x) {
  return verify([](tensor<float, 2> t) { return sum(t); })(x);
}
