// expect: error
// match: \[zeros\] a device stands last, behind the extents
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong() { return zeros<float>(device::cpu(), 3, 4); }
