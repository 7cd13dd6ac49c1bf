// expect: error
// match: \[gather_nd\] the index's last extent is not static
// lines: 40

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a, tensor<int, 2> i) { return gather_nd(a, i); }
