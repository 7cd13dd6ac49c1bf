// expect: error
// match: \[linspace\] gives floating dtypes; use arange for integers
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong() { return linspace<int>(0, 1, 5); }
