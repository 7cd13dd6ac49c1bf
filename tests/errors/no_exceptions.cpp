// expect: error
// match: sinter: reports errors by exceptions.*compile without -fno-exceptions
// lines: 12
// flags: -fno-exceptions
#include <sinter/sinter.hpp>
