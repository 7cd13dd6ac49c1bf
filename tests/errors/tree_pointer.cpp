// expect: error
// match: \[tree\] a tree cannot hold a pointer
// lines: 50

#include <sinter/sinter.hpp>

using namespace sinter;

struct holder {
  tensor<float, 1> x;
  int* p = nullptr;
};
auto wrong(holder h) {
  return compile([](holder v) { return v.x; })(h);
}
