// expect: error
// match: no matching function
// lines: 90

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong() { return zeros<float>(device::cpu(), 3, 4); }
