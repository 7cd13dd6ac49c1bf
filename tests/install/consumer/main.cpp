#include <sinter/sinter.hpp>

int main() {
  auto f = sinter::compile([](sinter::tensor<float, 2> x) { return x * 2 + 1; });
  sinter::tensor<float, 2> x{{1, 2}, {3, 4}};
  sinter::tensor<float, 2> y = f(x);
  const std::vector<float> expected{3, 5, 7, 9};
  return y.to_vector() == expected ? 0 : 1;
}
