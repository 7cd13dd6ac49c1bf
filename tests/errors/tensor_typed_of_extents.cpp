// expect: error
// match: of these extents: zeros<T>\(3, 4\), ones or full
// lines: 18
#include <sinter/sinter.hpp>

using namespace sinter;
auto wrong() { return tensor<float, 2>(3, 4); }
