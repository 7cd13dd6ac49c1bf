// expect: error
// match: \[compile\] the function does not take these arguments
// match: number_of_arguments<3>, (sinter::)?detail::told::takes<1>
// first: 3
// lines: 16
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  return compile([](const auto& a) { return sum(a); })(x, x, x);
}
