// expect: error
// match: into a view nothing is written: x = where
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;
void wrong(tensor<double, 2> m) { slice<0>(m, 0, 1) += 1.0; }
