// expect: error
// match: bool
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

int wrong(tensor<float, 2> a) {
  if (a > 0) return 1;
  return 0;
}
