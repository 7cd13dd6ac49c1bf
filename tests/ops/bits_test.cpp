// bit_cast: every bit pattern of the narrow formats, words of 32 and 64 bits with NaN among them, on every backend; no derivative.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>

#include "walk.hpp"

using namespace sinter;

namespace {

/// f(x), eagerly and compiled.
template <class F, class X>
auto everywhere(const F& f, const X& x) {
  options plain;
  plain.backend = "reference";
  return std::vector{f(x), compile(f)(x), compile(f, plain)(x)};
}

template <class Float, class Word>
void check_words(const std::vector<Word>& words) {
  const tensor<Word, 1> x = from_span(words);
  using numbers = tensor<Float, 1>;
  for (const auto& y : everywhere([](const tensor<Word, 1>& w) { return numbers(bit_cast<Float>(w)); }, x)) {
    for (std::size_t i = 0; i < words.size(); ++i) CHECK(std::bit_cast<Word>(y.data()[i]) == words[i]);
    for (const auto& back : everywhere([](const numbers& t) { return tensor<Word, 1>(bit_cast<Word>(t)); }, y))
      CHECK(back.to_vector() == words);
  }
}

template <class Float, class Word>
void check_patterns() {
  const std::int64_t n = std::int64_t{1} << 8 * sizeof(Word);
  const tensor<Word, 1> x = cast<Word>(arange<std::int64_t>(n));
  using numbers = tensor<Float, 1>;
  for (const auto& y : everywhere([](const tensor<Word, 1>& w) { return numbers(bit_cast<Float>(w)); }, x)) {
    const auto back = everywhere([](const numbers& t) { return tensor<Word, 1>(bit_cast<Word>(t)); }, y);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const auto word = static_cast<std::make_unsigned_t<Word>>(i);
      const float want = Float::from_bits(word), got = y.data()[i];
      // A NaN keeps its sign.
      wrong += want == want ? y.data()[i].bits != word : got == got || std::signbit(got) != std::signbit(want);
      for (const auto& b : back) {
        const auto bits = static_cast<std::make_unsigned_t<Word>>(b.data()[i]);
        wrong += want == want ? bits != word : !std::isnan(static_cast<float>(Float::from_bits(bits)));
      }
    }
    CHECK(wrong == 0);
  }
}

}  // namespace

TEST_CASE("bit_cast of 32 and 64 bits keeps them, those of a NaN too") {
  check_words<float, std::uint32_t>({0, 0x80000000, 0x3fc00000, 0x7fc12345, 0xffc00001, 0x7f800000, 1, 0x12345678});
  check_words<float, std::int32_t>({0, -1, 1, 0x7fc12345, std::numeric_limits<std::int32_t>::min()});
  check_words<double, std::uint64_t>({0, 1, 0x3ff8000000000000, 0x7ff8000000012345, 0xfff8000000000001, ~0ull >> 1});
  check_words<double, std::int64_t>({0, -1, 1, 0x7ff8000000012345, 1ll << 62});
  // A constant is no literal, which has one NaN.
  const auto nan = compile([](const tensor<float, 1>& x) {
    return tensor<std::uint32_t, 1>(bit_cast<std::uint32_t>(
        tensor<float, 1>(where(x > 0, tensor<float, 1>(bit_cast<float>(full<std::uint32_t>(0x7fc12345, 3))), x))));
  });
  CHECK(nan(tensor<float, 1>{1, -1, 2}).to_vector() == std::vector<std::uint32_t>{0x7fc12345, 0xbf800000, 0x7fc12345});
}

TEST_CASE("bit_cast of every pattern of 16 and 8 bits") {
  check_patterns<f16, std::uint16_t>();
  check_patterns<bf16, std::int16_t>();
  check_patterns<f8_e4m3, std::uint8_t>();
  check_patterns<f8_e5m2, std::int8_t>();
  const tensor<f16, 1> half{f16(1.5f), f16(-2.f)};
  CHECK(tensor<bf16, 1>(bit_cast<bf16>(half)).to_vector()[0].bits == half.to_vector()[0].bits);
  CHECK(tensor<std::uint8_t, 1>(bit_cast<std::uint8_t>(tensor<std::int8_t, 1>{-1, 5})).to_vector()[0] == 255);
}

TEST_CASE("bit_cast in graphs of every backend; it has no derivative") {
  ops::walk w;
  const tensor<float, 1> x{1.5f, -0.f, 3e-40f, -7e30f, 2, 3, 4, 5, -6};
  const auto row = [&](const char* name, const auto& f, const auto& on) { w.row(name, ops::values(f(on)), 0, f, on); };
  row(
      "exponents", [](const auto& t) { return shr(bit_cast<std::int32_t>(t), 23); }, x);
  row(
      "powers of two", [](const auto& t) { return bit_cast<float>(shl(cast<std::int32_t>(abs(t)) % 9 + 120, 23)); }, x);
  row(
      "halves", [](const auto& t) { return bit_cast<std::int16_t>(tensor<f16, 1>(cast<f16>(t))); }, x);
  row(
      "bytes", [](const auto& t) { return bit_cast<f8_e5m2>(cast<std::uint8_t>(cast<std::int32_t>(abs(t)) * 9)); }, x);
  row(
      "doubles", [](const auto& t) { return bit_cast<double>(bit_cast<std::int64_t>(cast<double>(t)) + 3); }, x);
  w.run();
  const auto slope =
      grad([](const tensor<float, 1>& t) { return sum(t * cast<float>(bit_cast<std::int32_t>(t) % 5)); });
  CHECK(slope(x).to_vector() == tensor<float, 1>(cast<float>(bit_cast<std::int32_t>(x) % 5)).to_vector());
}
