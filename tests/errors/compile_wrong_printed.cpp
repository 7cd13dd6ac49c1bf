// expect: error
// match: \[compile\] the function does not take these arguments
// first: 3
// lines: 16
#include <iostream>

#include <sinter/sinter.hpp>

using namespace sinter;

void wrong(tensor<float, 2> x) {
  std::cout << compile([](tensor<float, 1> y) { return y; })(x);
}
