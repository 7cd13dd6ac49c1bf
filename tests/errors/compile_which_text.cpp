// expect: error
// match: \[compile\] the function does not take these arguments
// match: argument<1>, (sinter::)?detail::told::is<float, 1>, (sinter::)?detail::told::wants<std::.*string
// first: 3
// lines: 16
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  return compile([](const auto& a, const std::string&) { return sum(a); })(x, x);
}
