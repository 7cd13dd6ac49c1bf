// Programs of views of computed values, which would multiply in one kernel: against eager, everywhere, and compiled in seconds.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <string>

#include <sinter/sinter.hpp>

#include "../emulator/select.hpp"

namespace {

using namespace sinter;
using vector = tensor<float, 1>;
using matrix = tensor<float, 2>;

template <class F, class X>
void check(const std::string& name, F f, const X& x, double max_seconds) {
  CAPTURE(name);
  const auto want = X(f(x)).to_vector();
  const auto same = [&](const X& y) {
    const auto got = y.to(device::cpu()).to_vector();
    REQUIRE(got.size() == want.size());
    for (std::size_t i = 0; i < got.size(); ++i) REQUIRE(std::abs(got[i] - want[i]) <= 1e-4F * (1 + std::abs(want[i])));
  };
  for (const auto open : {dynamic::no, dynamic::yes}) {
    const auto start = std::chrono::steady_clock::now();
    same(compile(f, {.dynamic = open})(x));
    CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < max_seconds);
  }
  same(compile(f, {.backend = "reference"})(x));
  if (device_count() > 0) same(compile(f)(x.to(device::cuda(0))));
}

vector halved(const vector& x) { return slice<0>(x, 0, to_end, 2) + slice<0>(x, 1, to_end, 2); }
vector differences(const vector& x) { return slice<0>(x, 1) - slice<0>(x, 0, -1); }
matrix pooled(const matrix& x) {
  const auto row = [&](int i) { return slice<0>(x, i, to_end, 2); };
  return (slice<1>(row(0), 0, to_end, 2) + slice<1>(row(0), 1, to_end, 2) + slice<1>(row(1), 0, to_end, 2) +
          slice<1>(row(1), 1, to_end, 2)) *
         0.25F;
}
matrix blurred(const matrix& x) {
  const auto n = x.size(0) - 2, m = x.size(1) - 2;
  const auto at = [&](int i) { return slice<1>(slice<0>(x, i / 3, n + i / 3), i % 3, m + i % 3); };
  return (at(0) + at(1) + at(2) + at(3) + at(4) + at(5) + at(6) + at(7) + at(8)) * (1.F / 9);
}

template <class F>
auto times(int n, F f) {
  return [n, f](auto x) {
    for (int i = 0; i < n; ++i) x = f(x);
    return x;
  };
}

}  // namespace

TEST_CASE("views of what views are computed from") {
  const auto key = make_key(3);
  const double most = 60;  // of a machine that has much else to do; a kernel of all took minutes
  check("halves", times(10, halved), normal<float>(key, 1 << 13), most);
  check("differences", times(120, [](const vector& x) { return vector(differences(x) * 0.5F); }),
        normal<float>(key, 1000), most);
  check("pyramid", times(4, pooled), normal<float>(key, 64, 96), most);
  check("blurs", times(7, blurred), normal<float>(key, 40, 33), most);
}
