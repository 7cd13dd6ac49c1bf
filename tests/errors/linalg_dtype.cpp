// expect: error
// match: \[linalg\] takes float or double; cast with cast<float>\(x\)
// lines: 30

#include <sinter/linalg.hpp>

using namespace sinter;

auto wrong(tensor<int, 2> a) { return linalg::svd(a); }
