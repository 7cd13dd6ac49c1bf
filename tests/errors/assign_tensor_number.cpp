// expect: error
// match: for one value everywhere write x\.fill\(value\)
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
void wrong(tensor<double, 2> m) { m = 2.0; }
