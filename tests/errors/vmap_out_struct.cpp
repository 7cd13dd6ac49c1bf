// expect: error
// match: \[vmap\] a struct comes back as stacked<S>, along axis 0
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

struct row_of {
  tensor<float, 1> x;
};

auto f(const tensor<float, 2>& x) {
  return vmap([](tensor<float, 1> row) { return row_of{row}; }, out_axes<1>)(x);
}
