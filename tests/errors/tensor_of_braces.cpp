// expect: error
// match: \[tensor\] of extents is zeros<float>\(3, 4\), ones or full; of elements, tensor<float, 1>\{3, 4\}
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto wrong() { return tensor{{1.f, 2.f}, {3.f, 4.f}}; }
