// expect: error
// match: \[grad\] a number that is differentiated by arrives as a tensor of rank 0
// first: 3
// lines: 30
#include <iostream>

#include <sinter/sinter.hpp>

using namespace sinter;

double square_of(double x) { return x * x; }
void wrong() {
  const auto [l, g] = value_and_grad(square_of)(2.0);
  std::cout << l - 0.5 * g;
}
