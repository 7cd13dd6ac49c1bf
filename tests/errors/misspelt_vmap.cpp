// expect: error
// match: row_sum
// absent: \[vmap\]
// lines: 24, clang++ 30
#include <sinter/sinter.hpp>

using namespace sinter;

auto f(const tensor<float, 2>& x) {
  return vmap([](const auto& row) { return row_sum(row); })(x);
}
