// expect: error
// match: \[compile\] the function does not take these arguments
// match: mismatch<sinter::detail::told::number_of_arguments<1>, sinter::detail::told::takes<2>
// first: 3
// lines: 16
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  return compile([](tensor<float, 1> a, tensor<float, 1>) { return sum(a); })(x);
}
