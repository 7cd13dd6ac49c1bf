// expect: error
// match: \[add\] the result has another rank or static shape than the tensor on the left
// lines: 26

#include <sinter/sinter.hpp>

using namespace sinter;

void wrong(tensor<float, 1> a, tensor<float, 2> b) { a += b; }
