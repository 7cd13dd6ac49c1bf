// expect: error
// match: \[quantile\] takes a floating dtype
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<int, 1> a) { return quantile(a, 0.5); }
