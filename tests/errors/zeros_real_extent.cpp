// expect: error
// match: \[zeros\] extents are integers
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto wrong() { return zeros<float>(2.5); }
