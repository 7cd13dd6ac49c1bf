// Many updates of few elements, which blocks of a GPU add up by themselves first: against loops of the host.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <sinter/sinter.hpp>

#include "../emulator/select.hpp"

namespace {

using namespace sinter;

/// Numbers that add up exactly in every dtype, in any order.
template <class T>
void check_vector(std::int64_t updates, std::int64_t places, dynamic open) {
  CAPTURE(updates);
  CAPTURE(places);
  std::vector<T> base, x;
  std::vector<std::int64_t> at;
  std::uint64_t state = 7;
  const auto draw = [&](std::uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
  };
  for (std::int64_t i = 0; i < places; ++i) base.push_back(T(float(i % 5)));
  for (std::int64_t i = 0; i < updates; ++i) {
    x.push_back(T(float(draw(31) % 2)));
    at.push_back(static_cast<std::int64_t>(draw(29) % static_cast<std::uint64_t>(places + 2)) -
                 1);  // the last counts from the end, or is outside
  }
  std::vector<double> want(base.begin(), base.end());
  for (std::size_t i = 0; i < at.size(); ++i)
    if (at[i] < places) want[static_cast<std::size_t>(at[i] < 0 ? places - 1 : at[i])] += static_cast<double>(x[i]);
  const auto f = compile([](auto b, auto i, auto u) { return scatter_add(b, i, u); }, {.dynamic = open});
  const device gpu = device::cuda(0);
  const auto got =
      f(from_span(base).to(gpu), from_span(at).to(gpu), from_span(x).to(gpu)).to(device::cpu()).to_vector();
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(static_cast<double>(got[i]) == want[i]);
}

}  // namespace

TEST_CASE("many updates of few elements") {
  if (device_count() == 0) return;
  for (const auto open : {dynamic::no, dynamic::yes}) {
    check_vector<float>(40000, 7, open);
    check_vector<std::int64_t>(40001, 3, open);
    check_vector<double>(4099, 1, open);
    check_vector<std::int32_t>(3000, 300, open);
  }
  check_vector<f16>(3001, 5, dynamic::no);
  check_vector<std::uint8_t>(300, 5, dynamic::no);
  check_vector<std::int64_t>(0, 5, dynamic::no);
}

TEST_CASE("rows of few, beside other results") {
  if (device_count() == 0) return;
  const device gpu = device::cuda(0);
  const std::int64_t n = 5003;
  const tensor<float, 2> x = reshape(cast<float>(arange<std::int64_t>(n * 8) % 3), n, 8);
  const tensor<std::int64_t, 1> to = (arange<std::int64_t>(n) * 7) % 4;
  const auto f = [](auto x, auto to) {
    const tensor<float, 2> y = x * 2.f + 1.f;
    return std::pair{y, segment_sum(y, to, 4)};
  };
  const auto [y, sums] = compile(f)(x.to(gpu), to.to(gpu));
  const auto want = f(x, to);
  CHECK(allclose(y.to(device::cpu()), want.first));
  CHECK(allclose(sums.to(device::cpu()), want.second));
  // What is not a number stays where it is added.
  tensor<float, 1> u = full<float>(1.f, 2000);
  u(5) = std::numeric_limits<float>::quiet_NaN();
  u(6) = std::numeric_limits<float>::infinity();
  const auto g = compile([](auto u, auto at) { return scatter_add(zeros<float>(3, device::cuda(0)), at, u); });
  const tensor<std::int64_t, 1> places = arange<std::int64_t>(2000) % 3;
  const auto got = g(u.to(gpu), places.to(gpu)).to(device::cpu()).to_vector();
  CHECK(got[0] == std::numeric_limits<float>::infinity());
  CHECK(got[1] == 667);
  CHECK(std::isnan(got[2]));
}

TEST_CASE("histograms") {
  if (device_count() == 0) return;
  const tensor<float, 1> x = normal<float>(key{3}, 30000);
  const auto f = [](const tensor<float, 1>& x) { return histogram(x, 100, -4, 4).counts; };
  CHECK(compile(f)(x.to(device::cuda(0))).to(device::cpu()).to_vector() == tensor<std::int64_t, 1>(f(x)).to_vector());
}
