#include <sinter/sinter.hpp>

extern "C" [[gnu::visibility("default")]] int plugin() {
  auto f = sinter::compile([](sinter::tensor<float, 1> x) { return x * 7; });
  return f(sinter::tensor<float, 1>{1, 2}).to_vector() == std::vector<float>{7, 14} ? 0 : 1;
}
