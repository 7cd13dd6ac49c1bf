// expect: error
// match: \[zeros\] give as many extents as the shape has axes
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto wrong() { return zeros<float, dims{dyn, 3}>(4); }
