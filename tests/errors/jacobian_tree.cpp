// expect: error
// match: \[jacobian\] it is of one floating tensor by another: the argument and the result are; ravel makes a vector of a tree
// lines: 60
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> x) {
  return jacobian([](auto v) { return std::pair{sum(v), v}; })(x);
}
