// expect: error
// match: \[interpolate\] takes \(n, c, …\) with one to three spatial axes
// lines: 40

#include <sinter/windows.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> x) { return interpolate(x, {.size = {4}}); }
