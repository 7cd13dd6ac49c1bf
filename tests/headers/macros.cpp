// The macros of <windows.h>, which the headers neither trip over nor lose.
#include <algorithm>
#include <vector>

#define min(a, b) (((a) < (b)) ? (a) : (b))
#define max(a, b) (((a) > (b)) ? (a) : (b))

#include <sinter/sinter.hpp>

#if !defined(min) || !defined(max)
#error the macros are gone
#endif

using namespace sinter;

int main() {
  const tensor<float, 2> x{{1, 2}, {3, 4}};
  const auto f = compile([](const tensor<float, 2>& v) {
    return sum(softmax(v)) + (max)(v) + (min)(v) + sum(clamp(cumsum(v, axis<0>), 0.f, 1.f)) + sum(maximum(v, 2.f));
  });
  return max(static_cast<int>(f(x).item()), 1) + min(1, 2) + static_cast<int>((max)(x).item());
}
