// expect: error
// match: \[sub\] a C\+\+ number does not fit
// lines: 26

#include <sinter/sinter.hpp>

using namespace sinter;

void wrong(tensor<int, 1> a) { a -= 1.5; }
