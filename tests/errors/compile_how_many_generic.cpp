// expect: error
// match: \[compile\] the function does not take these arguments
// match: number_of_arguments<1>, (sinter::)?detail::told::takes<2>
// first: 3
// lines: 16
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  return compile([](auto a, auto b) { return a + b; })(x);
}
