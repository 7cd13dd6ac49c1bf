// The same instantiations as in first.cpp: every definition must be mergeable.
#include <sinter/sinter.hpp>

float second(float x) {
  auto f = sinter::compile([](sinter::tensor<float, 1> v) { return sum(exp(v) * 2.0f + 1.0f); });
  sinter::tensor<float, 1> v{x, x};
  return f(v).item();
}
