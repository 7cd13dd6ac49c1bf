// expect: error
// match: \[grad\] with has_aux the function must return two results: \(value, more\)
// lines: 60
#include <sinter/sinter.hpp>

auto f(const sinter::tensor<float, 1>& x) {
  return sinter::value_and_grad(
      [](auto x) {
        return std::tuple{sinter::sum(x), sinter::max(x), 1.f};
      },
      sinter::has_aux)(x);
}
