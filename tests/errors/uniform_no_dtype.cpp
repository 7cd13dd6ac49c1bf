// expect: error
// match: \[uniform\] the dtype stands in front: uniform<float>\(key, 3, 4\)
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto wrong(const key& k) { return uniform(k, 3); }
