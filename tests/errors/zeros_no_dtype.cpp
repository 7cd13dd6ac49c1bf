// expect: error
// match: \[zeros\] the dtype stands in front: zeros<float>\(3, 4\)
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto wrong() { return zeros(3); }
