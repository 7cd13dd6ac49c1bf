// expect: error
// match: \[from_span\] is called as from_span\(vector\)
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(int x) { return from_span(x); }
