// expect: error
// match: \[vmap\] an argument holds a struct.*stack_tree makes one of a std::vector<S>
// first: 3
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

struct linear {
  tensor<float, 2> w;
};

auto f(const linear& p, const tensor<float, 2>& x) {
  return vmap([](linear p, tensor<float, 1> row) { return matmul(row, p.w); })(p, x);
}
