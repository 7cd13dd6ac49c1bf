#include <dlfcn.h>

#include <sinter/sinter.hpp>

#if defined(WITH_LIBRARIES)
namespace in_static {
sinter::tensor<float, 2> triple(const sinter::tensor<float, 2>& x);
sinter::tensor<float, 2> plus_five(const sinter::tensor<float, 2>& x);
}  // namespace in_static
namespace in_shared {
sinter::tensor<float, 2> triple(const sinter::tensor<float, 2>& x);
sinter::tensor<float, 2> plus_five(const sinter::tensor<float, 2>& x);
}  // namespace in_shared
#endif

int main(int count, char** arguments) {
  auto f = sinter::compile([](sinter::tensor<float, 2> x) { return x * 2 + 1; });
  sinter::tensor<float, 2> x{{1, 2}, {3, 4}};
  sinter::tensor<float, 2> y = f(x);
  const std::vector<float> expected{3, 5, 7, 9};
  if (y.to_vector() != expected) return 1;
#if defined(WITH_LIBRARIES)
  if (in_static::triple(x).to_vector() != std::vector<float>{3, 6, 9, 12}) return 2;
  if (in_shared::triple(x).to_vector() != std::vector<float>{3, 6, 9, 12}) return 3;
  // There is one engine: what the libraries do to a traced tensor is in this program's trace, and in its one kernel.
  auto g =
      sinter::compile([](sinter::tensor<float, 2> v) { return in_shared::plus_five(in_static::plus_five(v)) * 2; });
  if (g(x).to_vector() != std::vector<float>{22, 24, 26, 28}) return 4;
  if (g.report().nodes_traced < 4 || g.report().kernels != 1) return 5;
#endif
  if (count > 1) {
    void* const loaded = ::dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    void* const entry = loaded ? ::dlsym(loaded, "plugin") : nullptr;
    if (!entry || reinterpret_cast<int (*)()>(entry)() != 0) return 6;
  }
  return 0;
}
