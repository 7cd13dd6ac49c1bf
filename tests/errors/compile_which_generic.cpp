// expect: error
// match: \[compile\] the function does not take these arguments
// match: mismatch<sinter::detail::told::argument<1>, sinter::detail::told::is<float, 1>
// first: 3
// lines: 16
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  return compile([](const auto& a, tensor<float, 2>) { return sum(a); })(x, x);
}
