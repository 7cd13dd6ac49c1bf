// expect: error
// match: nothing is written into a view: write view\.fill\(value\)
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
void wrong(tensor<double, 2> m) { transpose(m) = m * 2.0; }
