// expect: error
// match: \[tree_all\] the function does not take every leaf
// lines: 40
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 1>& x, const tensor<float, 2>& y) {
  return tree_all([](tensor<float, 1> t) { return isfinite(t); }, std::tuple{x, y});
}
