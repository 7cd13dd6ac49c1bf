// expect: error
// match: into a view nothing is written: x = where|const
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;
void wrong(const tensor<double, 2>& m) { m += 1.0; }
