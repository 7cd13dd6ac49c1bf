// The same instantiations as in second.cpp: every definition must be mergeable.
#include <sinter/sinter.hpp>

#include <cstdio>

float second(float x);

float first(float x) {
  auto f = sinter::compile([](sinter::tensor<float, 1> v) { return sum(exp(v) * 2.0f + 1.0f); });
  sinter::tensor<float, 1> v{x, x};
  return f(v).item();
}

int main() {
  const float a = first(0.0f), b = second(0.0f);
  if (a == 6.0f && b == 6.0f) return 0;
  std::printf("first %g, second %g, expected 6\n", a, b);
  return 1;
}
