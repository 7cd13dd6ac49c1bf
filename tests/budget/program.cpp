// What a user pays for: the header and one compiled lambda.
#include <sinter/sinter.hpp>

int main() {
  auto f = sinter::compile([](sinter::tensor<float, 1> x) { return x * 2 + 1; });
  sinter::tensor<float, 1> x{1, 2, 3};
  sinter::tensor<float, 1> y = f(x);
  return y.to_vector()[2] == 7.0f ? 0 : 1;
}
