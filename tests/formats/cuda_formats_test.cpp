// 8-bit floats and packed integers on a GPU: the host's bits.
#include <cmath>

#include <doctest/doctest.h>

#include <sinter/formats.hpp>

using namespace sinter;

namespace {

/// Without a GPU these run on the host and check less.
device gpu() { return device_count() > 0 ? device::cuda(0) : device::cpu(); }

template <class F>
void check_bits() {
  const tensor<float, 1> x =
      concat<0>(normal<float>(make_key(1), 1001) * exp2(uniform<float>(make_key(2), 1001) * 40.f - 20.f),
                tensor<float, 1>{0.f, -0.f, INFINITY, -INFINITY, NAN, 464.f, 465.f, 61440.f, 0x1p-10f});
  const auto f = compile([](const tensor<float, 1>& x) {
    const tensor<F, 1> y = cast<F>(x);
    return std::pair{y, evaluate(cast<float>(cast<F>(cast<float>(y) * 1.5f)))};
  });
  const auto [y, z] = f(x);
  const auto [u, v] = f(x.to(gpu()));
  const auto a = cast<float>(y), b = cast<float>(u.to(device::cpu()));
  const auto same = [](float a, float b) {
    return a == b ? std::signbit(a) == std::signbit(b) : std::isnan(a) && std::isnan(b);
  };
  const auto p = evaluate(a).to_vector(), q = evaluate(b).to_vector(), r = z.to_vector(), s = v.to_vector();
  for (std::size_t i = 0; i < p.size(); ++i) CHECK((same(p[i], q[i]) && same(r[i], s[i])));
}

}  // namespace

TEST_CASE("8-bit floats on a GPU") {
  check_bits<f8_e4m3>();
  check_bits<f8_e5m2>();
  const tensor<f8_e4m3, 2> a = cast<f8_e4m3>(normal<float>(make_key(1), 9, 16)),
                           b = cast<f8_e4m3>(normal<float>(make_key(2), 16, 5));
  const auto product = compile([](const auto& a, const auto& b) { return scaled_matmul(a, b, 0.5f, 2.f); });
  const auto own = compile([](const auto& a, const auto& b) { return tensor<float, 2>(cast<float>(matmul(a, b))); });
  const auto want = product(a, b).to_vector(), got = product(a.to(gpu()), b.to(gpu())).to_vector();
  const auto rounded = own(a, b).to_vector(), there = own(a.to(gpu()), b.to(gpu())).to_vector();
  for (std::size_t i = 0; i < want.size(); ++i) {
    CHECK(std::fabs(want[i] - got[i]) <= 1e-4f);
    CHECK(std::fabs(rounded[i] - there[i]) <= 0.13f * std::fabs(rounded[i]) + 0.01f);
    CHECK(std::fabs(rounded[i] - want[i]) <= 0.07f * std::fabs(want[i]) + 0.01f);
  }
  const tensor<std::uint8_t, 1> bytes = cast<std::uint8_t>(arange<std::int64_t>(256));
  const auto four = compile([](const auto& x) { return tensor<std::int8_t, 1>(unpack<4, std::int8_t>(x)); });
  CHECK(four(bytes).to_vector() == four(bytes.to(gpu())).to_vector());
}

TEST_CASE("columns of subnormals and of infinities are quantized on a GPU as on the host") {
  const auto f = compile([](const tensor<float, 2>& w) { return quantize(w); });
  constexpr float least = std::numeric_limits<float>::denorm_min();
  const tensor<float, 2> w{{least, 190 * least, 0, INFINITY, 3}, {-least, -190 * least, 0, -INFINITY, 1.5f}};
  const auto [q, scales] = f(w.to(gpu()));
  CHECK(q.to_vector() == std::vector<std::int8_t>{127, 127, 0, 127, 127, -127, -127, 0, -127, 64});
  CHECK(scales.to_vector() == quantize(w).second.to_vector());
}
