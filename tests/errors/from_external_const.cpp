// expect: error
// match: \[from_external\] a tensor.s elements can be written; copy with from_span
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

void wrong(const float* p) {
  from_external(p, {3}, [](const float*) {});
}
