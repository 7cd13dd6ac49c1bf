// expect: error
// match: the trees differ: containers, array lengths and numbers of fields must be equal
// lines: 60
#include <sinter/sinter.hpp>

using vec = sinter::tensor<float, 1>;
auto f(const std::array<vec, 2>& p, const std::array<vec, 3>& q) { return sinter::tree_zip(p, q); }
