// expect: error
// match: nothing is written into a view: write view\.fill\(value\), x\(i, j\) = value, or x = where
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
void wrong(tensor<double, 2> m) { slice<0>(m, 0, 1) = zeros<double>(1, 2); }
