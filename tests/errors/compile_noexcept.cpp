// expect: error
// match: \[compile\] the function is noexcept, but exceptions end a trace; drop noexcept
// lines: 40
#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(const tensor<float, 1>& x) {
  return compile([](tensor<float, 1> y) noexcept { return tensor<float, 1>(y * 2.f); })(x);
}
