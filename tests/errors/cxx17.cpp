// expect: error
// match: sinter: needs C\+\+20: compile with -std=c\+\+20
// lines: 12
// flags: -std=c++17
#include <sinter/sinter.hpp>
