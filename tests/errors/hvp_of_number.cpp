// expect: error
// match: \[hvp\] a number that is differentiated by arrives as a tensor of rank 0
// first: 3
// lines: 16, clang++ 20
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong() {
  return hvp([](double x) { return x * x; })(2.0, 1.0);
}
