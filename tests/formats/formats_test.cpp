// 8-bit floats in memory, eagerly, compiled, by the interpreter and on an emulated GPU; packed integers; products with scales.
#include <cmath>
#include <limits>
#include <vector>

#include <sinter/formats.hpp>

#include "../front/transforms/derivatives.hpp"
#include "../texts.hpp"

using namespace sinter;
using namespace derivatives;
using texts::contains;
using texts::error_of;

namespace {

/// A number in 8 bits by its definition: the nearest of all, of two the one whose last bit is 0.
template <class F>
double nearest(double x) {
  constexpr bool infinite = std::is_same_v<F, f8_e5m2>;
  constexpr int count = infinite ? 0x7c : 0x7f;
  if (std::isnan(x)) return x;
  const double a = std::fabs(x), last = static_cast<float>(F::from_bits(count - 1)),
               before = static_cast<float>(F::from_bits(count - 2));
  const double past = last + (last - before) / 2;
  const bool even = (count - 1) % 2 == 0;
  if (a > past || (a == past && !even)) return infinite ? std::copysign(INFINITY, x) : std::nan("");
  double best = 0;
  for (int b = 0; b < count; ++b) {
    const double v = static_cast<float>(F::from_bits(static_cast<std::uint8_t>(b)));
    const double d = std::fabs(v - a), least = std::fabs(best - a);
    if (d < least || (d == least && b % 2 == 0)) best = v;
  }
  return std::copysign(best, x);
}

tensor<float, 1> hard() {
  std::vector<float> all;
  for (int b = 0; b < 256; ++b)
    for (const double by : {1.0, 1.03125, 1.0625, 0.97, 0.5}) {
      all.push_back(static_cast<float>(double(float(f8_e4m3::from_bits(static_cast<std::uint8_t>(b)))) * by));
      all.push_back(static_cast<float>(double(float(f8_e5m2::from_bits(static_cast<std::uint8_t>(b)))) * by));
    }
  for (const float x : {464.f, 465.f, 480.f, 1e9f, -1e9f, 61439.f, 61440.f, 0x1p-9f, 0x1p-10f, 0x1.8p-10f, 0x1p-17f,
                        0x1.8p-17f, 1e-30f, -1e-30f, 0.f, -0.f, INFINITY, -INFINITY})
    all.push_back(x);
  return from_span(std::span<const float>(all), {static_cast<std::int64_t>(all.size())});
}

template <class F>
void check_casts() {
  const auto x = hard();
  std::vector<double> want;
  for (const float v : x.to_vector()) want.push_back(nearest<F>(v));
  const auto there = [](const tensor<float, 1>& x) { return evaluate(cast<F>(x)); };
  const auto round_trip = [](const tensor<float, 1>& x) { return evaluate(cast<double>(cast<F>(x))); };
  const auto same = [&](const auto& got) {
    REQUIRE(got.size() == want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      const double g = static_cast<double>(static_cast<float>(got[i]));
      const bool equal = std::isnan(want[i]) ? std::isnan(g) : g == want[i] && std::signbit(g) == std::signbit(want[i]);
      CHECK_MESSAGE(equal, i, ": ", g, ", not ", want[i]);
    }
  };
  for (const auto& y : everywhere(there, x)) same(y.to_vector());
  for (const auto& y : everywhere(round_trip, x)) same(y.to_vector());
  // Odd lengths, strides, what comes from memory.
  const tensor<F, 1> stored = cast<F>(x);
  const auto read = [](const tensor<F, 1>& x) { return evaluate(cast<double>(slice<0>(x, 3, to_end, 2))); };
  for (const auto& y : everywhere(read, stored))
    for (std::int64_t i = 0; i < y.numel(); ++i) {
      const double w = want[static_cast<std::size_t>(3 + 2 * i)];
      CHECK((std::isnan(w) ? std::isnan(y(i)) : y(i) == w));
    }
}

}  // namespace

TEST_CASE("casts to 8 bits and back are the nearest numbers") {
  check_casts<f8_e4m3>();
  check_casts<f8_e5m2>();
  const vec big{1e9, -500, INFINITY, -INFINITY, std::nan(""), 3.1};
  const auto at_most = [](const vec& x) { return evaluate(cast<double>(cast<f8_e4m3>(x, saturate))); };
  for (const auto& y : everywhere(at_most, big)) {
    CHECK(y(0) == 448);
    CHECK(y(1) == -448);
    CHECK(y(2) == 448);
    CHECK(y(3) == -448);
    CHECK(std::isnan(y(4)));
    CHECK(y(5) == 3.0);
  }
  CHECK(cast<double>(cast<f8_e5m2>(big, saturate)).to_vector()[0] == 57344);
}

TEST_CASE("tensors of 8-bit floats: arithmetic in f32, views, gradients, words") {
  const tensor<f8_e4m3, 2> a = cast<f8_e4m3>(normal<float>(make_key(1), 5, 7)),
                           b = cast<f8_e4m3>(normal<float>(make_key(2), 5, 7));
  const auto f = [](const auto& a, const auto& b) { return evaluate(transpose(abs(a * b) + abs(a))); };
  const auto want = f(tensor<float, 2>(cast<float>(a)), tensor<float, 2>(cast<float>(b)));
  for (const auto& y : everywhere(f, a, b)) {
    const auto got = cast<float>(y).to_vector();
    for (std::size_t i = 0; i < got.size(); ++i)
      CHECK(std::fabs(got[i] - float(want.to_vector()[i])) <= 0.13f * got[i] + 0.004f);
  }
  const auto loss = [](const tensor<float, 2>& x) { return sum(cast<float>(cast<f8_e5m2>(x)) * x); };
  for (const auto& g : everywhere(grad(loss), tensor<float, 2>(cast<float>(a)))) CHECK(g.shape() == a.shape());
  CHECK(contains(to_string(tensor<f8_e4m3, 1>{1.f, 2.5f}), "f8_e4m3(2,) [1, 2.5]"));
  const tensor<f8_e5m2, 2> wide = concat<0>(zeros<f8_e5m2>(1, 3), ones<f8_e5m2>(2, 3));
  CHECK(cast<float>(sum(wide)).item() == 6);
}

TEST_CASE("products with scales: 8-bit floats, integers of 8 bits, groups") {
  const matrix x = normal<double>(make_key(1), 6, 33) * 3.0, w = normal<double>(make_key(2), 33, 10);
  const auto a = cast<f8_e4m3>(x), b = cast<f8_e4m3>(w);
  const tensor<float, 2> rows = uniform<float>(make_key(3), 6, 1) + 0.5f;
  const auto want = matmul(cast<double>(a), cast<double>(b)) * cast<double>(rows) * 0.25;
  const auto product = [&](const auto& a, const auto& b, const auto& rows) { return scaled_matmul(a, b, rows, 0.25f); };
  for (const auto& y : everywhere(product, tensor<f8_e4m3, 2>(a), tensor<f8_e4m3, 2>(b), rows))
    check_close(cast<double>(y).to_vector(), evaluate(want).to_vector(), 1e-5);
  const auto made = quantize(w);
  const auto& q = made.first;
  const auto& scales = made.second;
  CHECK(cast<double>(max(abs(cast<double>(q)))).item() == 127);
  const auto by_columns = [](const matrix& x, const tensor<std::int8_t, 2>& q, const vec& s) {
    return quantized_matmul(x, q, s);
  };
  const matrix meant = cast<double>(q) * scales;
  for (const auto& y : everywhere(by_columns, x, tensor<std::int8_t, 2>(q), vec(scales)))
    check_close(y.to_vector(), matmul(x, meant).to_vector(), 1e-12);
  CHECK(max(abs(meant - w)).item() <= max(scales).item() * 0.5000001);
  const matrix groups = uniform<double>(make_key(5), 3, 10);
  const matrix spread = reshape(reshape(cast<double>(q), {3, 11, 10}) * expand_dims<1>(groups), {33, 10});
  for (const auto& y : everywhere(
           [](const matrix&x, const tensor<std::int8_t, 2>&q, const matrix&s) { return quantized_matmul(x, q, s); }, x,
           tensor<std::int8_t, 2>(q), groups))
    check_close(y.to_vector(), matmul(x, spread).to_vector(), 1e-12);
  CHECK(contains(error_of([&] { quantized_matmul(x, q, matrix(ones<double>(4, 10))); }),
                 "[quantized_matmul] 4 groups of scales do not divide the 33 rows of w"));
  CHECK(quantize(matrix(zeros<double>(2, 3))).second.to_vector() == std::vector<double>(3));
}

namespace {

/// That q is what each column of w is in steps of its largest magnitude over `most`, which stands for that magnitude.
template <class R, class T>
void check_columns(const tensor<T, 2>& w) {
  const auto f = [](const tensor<T, 2>& w) {
    const auto made = quantize<R>(w);
    return std::pair{made.first, tensor<double, 1>(cast<double>(made.second))};
  };
  constexpr double most = static_cast<double>(std::numeric_limits<R>::max());
  for (const auto& [q, scales] : everywhere(f, w))
    for (std::int64_t j = 0; j < w.size(1); ++j) {
      double largest = 0;
      for (std::int64_t i = 0; i < w.size(0); ++i) largest = std::max(largest, std::fabs(double(w(i, j))));
      INFO("column ", j, " of largest magnitude ", largest);
      CHECK(scales(j) == double(static_cast<T>(largest / most)));
      for (std::int64_t i = 0; i < w.size(0); ++i) {
        const double v = double(w(i, j));
        const double part = largest == 0 ? 0 : std::isinf(v) ? std::copysign(1, v) : v / largest;
        const double want = std::nearbyint(part * most);
        if (want >= most) CHECK(q(i, j) == std::numeric_limits<R>::max());
        else if (want <= -most) CHECK(q(i, j) == -std::numeric_limits<R>::max());
        else CHECK(q(i, j) == static_cast<R>(want));
      }
    }
}

template <class T>
tensor<T, 2> hard_columns() {
  constexpr double least = double(std::numeric_limits<T>::denorm_min()), most = double(std::numeric_limits<T>::max());
  const doubles largest{0,           least,       2 * least, 63 * least, 64 * least, 127 * least, 190 * least,
                        191 * least, 1e5 * least, 1e-3,      1,          most,       INFINITY};
  std::vector<T> all;
  for (const double part : {1.0, -1.0, 0.5, -0.25, 0.0})
    for (const double x : largest) all.push_back(static_cast<T>(std::isinf(x) && part == 0 ? 1.0 : part * x));
  return from_span(all, 5, -1);
}

}  // namespace

TEST_CASE("the largest magnitude of a column is the largest integer, however small, large or infinite it is") {
  check_columns<std::int8_t>(hard_columns<float>());
  check_columns<std::int16_t>(hard_columns<float>());
  check_columns<std::int32_t>(hard_columns<float>());
  check_columns<std::int64_t>(hard_columns<float>());
  check_columns<std::int8_t>(hard_columns<double>());
  check_columns<std::int64_t>(hard_columns<double>());
  const tensor<f16, 2> halves{{f16(65504.f), f16(0x1p-24f)}, {f16(-65504.f), f16(-0x1p-24f)}};
  CHECK(quantize(halves).first.to_vector() == std::vector<std::int8_t>{127, 127, -127, -127});
  const auto [q, scales] = quantize(tensor<float, 2>{{NAN, 1}, {2, -3}});
  CHECK(q.to_vector() == std::vector<std::int8_t>{0, 42, 0, -127});
  CHECK(std::isnan(scales(0)));
}

TEST_CASE("scales are one a column, and repeat no product") {
  const tensor<float, 2> x = ones<float>(2, 4), w = ones<float>(4, 1);
  const auto q = quantize(w).first;
  const auto refused = [](const char* what, const auto& f, const auto&... a) {
    for (const auto& text : {error_of([&] { f(a...); }), error_of([&] { compile(f)(a...); }),
                             error_of([&] { compile(f, {.dynamic = dynamic::yes})(a...); })})
      CHECK_MESSAGE(contains(text, what), text);
  };
  const auto quantized = [](const auto& x, const auto& q, const auto& s) { return quantized_matmul(x, q, s); };
  refused("[quantized_matmul] w is (4, 1), scales are (3,); give a scale for each column of w", quantized, x, q,
          tensor<float, 1>{1, 2, 3});
  refused("[quantized_matmul] w is (4, 1), scales are (2, 3); give a scale", quantized, x, q, ones<float>(2, 3));
  const auto scaled = [](const auto& x, const auto& w, const auto& s) { return scaled_matmul(x, w, s, 1.f); };
  refused("[scaled_matmul] a scale is (3,), which does not broadcast to (2, 1)", scaled, x, w,
          tensor<float, 1>{1, 2, 3});
  refused("[scaled_matmul] a scale is (3, 1), which does not broadcast to (2, 1)", scaled, x, w, ones<float>(3, 1));
  CHECK(scaled(x, w, ones<float>(2, 1)).numel() == 2);
}

TEST_CASE("integers of few bits lie in bytes, the low ones first") {
  const tensor<std::uint8_t, 2> bytes = cast<std::uint8_t>(randint<std::int64_t>(make_key(7), 0, 256, 3, 5));
  const auto four = [](const auto& x) { return evaluate(unpack<4>(x)); };
  const auto lows = [](const auto& x) { return evaluate(unpack<4, std::int8_t>(x)); };
  for (const auto& y : everywhere(four, bytes)) {
    REQUIRE(y.size(1) == 10);
    for (std::int64_t i = 0; i < 3; ++i)
      for (std::int64_t j = 0; j < 10; ++j) CHECK(y(i, j) == (bytes(i, j / 2) >> (4 * (j % 2)) & 15));
  }
  for (const auto& y : everywhere(lows, bytes))
    for (std::int64_t j = 0; j < 10; ++j) {
      const int low = bytes(1, j / 2) >> (4 * (j % 2)) & 15;
      CHECK(y(1, j) == (low < 8 ? low : low - 16));
    }
  for (const auto& y : everywhere([](const auto& x) { return pack<4>(unpack<4, std::int8_t>(x)); }, bytes))
    CHECK(y.to_vector() == bytes.to_vector());
  CHECK(pack<1>(unpack<1>(bytes)).to_vector() == bytes.to_vector());
  CHECK(pack<2>(unpack<2, std::int64_t>(bytes)).to_vector() == bytes.to_vector());
  CHECK(unpack<2>(tensor<std::uint8_t, 1>(zeros<std::uint8_t>(0))).numel() == 0);
  CHECK(
      contains(error_of([&] { pack<4>(arange<std::int64_t>(5)); }), "[pack] the last axis has 5 numbers, of which 2"));
}
