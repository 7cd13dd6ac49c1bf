// The same instantiations as in first.cpp, among names that users give to functions of their own.
#include <sinter/sinter.hpp>

using namespace sinter;

float run(float x) {
  auto f = compile([](tensor<float, 1> v) { return sum(exp(v) * 2.0f + 1.0f); });
  tensor<float, 1> v{x, x};
  return f(v).item();
}

float plan(float x) { return run(x); }
float emit(float x) { return plan(x); }
float rewrite(float x) { return emit(x); }
float reporting(float x) { return rewrite(x); }

float second(float x) { return reporting(x); }
