// expect: error
// match: \[arange\] the dtype stands in front: arange<float>\(10\)
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto wrong() { return arange(3); }
