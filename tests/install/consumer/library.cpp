// The same functions in a static and in a shared library, each in the namespace LIBRARY.
#include <sinter/io.hpp>
#include <sinter/sinter.hpp>
#include <string>

namespace LIBRARY {

/// Compiled within the library.
[[gnu::visibility("default")]] sinter::tensor<float, 2> triple(const sinter::tensor<float, 2>& x) {
  static auto f = sinter::compile([](sinter::tensor<float, 2> v) { return v * 3; });
  return f(x);
}

/// Part of the caller's trace, if there is one.
[[gnu::visibility("default")]] sinter::tensor<float, 2> plus_five(const sinter::tensor<float, 2>& x) { return x + 5; }

/// A library beside sinter.hpp, with what it needs.
[[gnu::visibility("default")]] void keep(const std::string& path, const sinter::tensor<float, 2>& x) {
  sinter::io::save(path, x);
}

}  // namespace LIBRARY
