// expect: error
// match: \[linalg\] takes matrices: the tensor has to have two axes or more
// lines: 30

#include <sinter/linalg.hpp>

using namespace sinter;

auto wrong(tensor<float, 1> a) { return linalg::qr(a); }
