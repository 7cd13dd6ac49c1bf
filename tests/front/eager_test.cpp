// tests/front/eager_test.cpp: the fused loops: odd shapes, views, broadcasts, reductions, accuracy.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <sinter/front/eager_reduce.hpp>
#include <sinter/sinter.hpp>
#include <string>

#include "ops_support.hpp"

using namespace sinter;

namespace {

/// x with reversed axes, every stride doubled or negated, in storage of its own.
template <class T>
tensor<T, 3> scattered(const tensor<T, 3>& x, bool reverse) {
  const auto e = x.shape();
  const auto room = zeros<T>(2 * e[0], e[1], 2 * e[2]);
  const auto s = room.strides();
  index_array<3> strides{2 * s[0], s[1], 2 * s[2]};
  T* first = room.data();
  if (reverse && room.numel() > 0) {
    first += strides[2] * (e[2] - 1) + strides[0] * (e[0] - 1);
    strides[0] *= -1;
    strides[2] *= -1;
  }
  const auto view = detail::access::make<T, dims(3)>(detail::access::memory(room), first, e, strides);
  for (std::int64_t i = 0; i < e[0]; ++i)
    for (std::int64_t j = 0; j < e[1]; ++j)
      for (std::int64_t k = 0; k < e[2]; ++k) view(i, j, k) = x(i, j, k);
  return view;
}

const index_array<3> shapes[] = {{3, 5, 7},  {1, 1, 1}, {2, 1, 9}, {1, 33, 1},
                                 {4, 17, 3}, {0, 3, 2}, {3, 2, 0}, {64, 40, 33}};

/// The reduction of want's elements over `axes`, by a plain loop.
template <class F>
ops::array reduced(const ops::array& x, const std::vector<int>& axes, double start, F&& f) {
  ops::coord kept;
  const auto keeps = [&](std::size_t axis) {
    return std::find(axes.begin(), axes.end(), static_cast<int>(axis)) == axes.end();
  };
  for (std::size_t i = 0; i < x.extents.size(); ++i)
    if (keeps(i)) kept.push_back(x.extents[i]);
  ops::array out = ops::make(kept, [&](const ops::coord&) { return start; });
  ops::make(x.extents, [&](const ops::coord& c) {
    std::int64_t to = 0;
    for (std::size_t i = 0; i < c.size(); ++i)
      if (keeps(i)) to = to * x.extents[i] + c[i];
    auto& total = out.at[static_cast<std::size_t>(to)];
    total = f(total, ops::get(x, c));
    return 0.0;
  });
  return out;
}

template <ir::op C, int Kept, class E>
auto reduce(const E& e, const std::vector<int>& axes) {
  return detail::eager_reduce<C, dims(Kept)>(e, axes.data(), static_cast<int>(axes.size()), {});
}

template <class T, class E, class F>
void check_reductions(const E& e, const ops::array& x, const std::vector<int>& axes, F&& reduce_all) {
  const double tolerance = std::max(ops::tolerance_of<T>(), 1e-14);
  const auto worst = std::numeric_limits<double>::infinity();
  reduce_all(e, axes, [&](const auto& sum, const auto& top, const auto& bottom) {
    ops::check_equal(ops::values(sum), reduced(x, axes, 0, [](double a, double b) { return a + b; }), tolerance);
    if (top.numel() == 0 || x.at.empty()) return;
    ops::check_equal(ops::values(top), reduced(x, axes, -worst, [](double a, double b) { return std::max(a, b); }),
                     tolerance);
    ops::check_equal(ops::values(bottom), reduced(x, axes, worst, [](double a, double b) { return std::min(a, b); }),
                     tolerance);
  });
}

template <class T, class E>
void check_all_axes(const E& e, const ops::array& x) {
  const auto over = [&]<int Kept>(std::initializer_list<std::vector<int>> lists) {
    for (const auto& axes : lists)
      check_reductions<T>(e, x, axes, [](const auto& f, const std::vector<int>& a, auto&& then) {
        const auto sum = reduce<ir::op::add, Kept>(f, a);
        // Nothing has no maximum.
        const bool nothing = f.numel() == 0;
        then(sum, nothing ? sum : reduce<ir::op::maximum, Kept>(f, a),
             nothing ? sum : reduce<ir::op::minimum, Kept>(f, a));
      });
  };
  over.template operator()<2>({{0}, {1}, {2}});
  over.template operator()<1>({{0, 1}, {2, 0}, {1, 2}});
  over.template operator()<0>({{0, 1, 2}});
}

}  // namespace

TEST_CASE_TEMPLATE("pointwise loops over odd shapes and views", T, std::int16_t, int, std::int64_t, float, double,
                   f16) {
  for (const auto& shape : shapes) {
    const auto a = ops::sample<T, 3>(shape, 1), b = ops::sample<T, 3>(shape, 2);
    const auto want = ops::make({shape.begin(), shape.end()}, [&](const ops::coord& c) {
      return static_cast<double>(a(c[0], c[1], c[2])) * 2 + static_cast<double>(b(c[0], c[1], c[2])) - 1;
    });
    const double tolerance = ops::tolerance_of<T>();
    for (const bool reverse : {false, true}) {
      ops::check_equal(ops::values(a * 2 + b - 1), want, tolerance);
      ops::check_equal(ops::values(scattered(a, reverse) * 2 + b - 1), want, tolerance);
      ops::check_equal(ops::values(a * 2 + scattered(b, reverse) - 1), want, tolerance);
    }
    ops::check_equal(ops::values(detail::materialize(scattered(a, true), {})), ops::values(a), 0);
  }
}

TEST_CASE("a large loop splits between threads without gaps") {
  const auto x = arange<std::int64_t>(300007);
  const auto y = evaluate(x * 3 - 1).to_vector();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < y.size(); ++i) wrong += y[i] != static_cast<std::int64_t>(i) * 3 - 1;
  CHECK(wrong == 0);
  const auto square = evaluate(ops::sample<float, 2>({700, 1}) + ops::sample<float, 2>({1, 531}));
  CHECK(square(699, 530) == ops::sample<float, 2>({700, 1})(699, 0) + ops::sample<float, 2>({1, 531})(0, 530));
  CHECK(square(350, 17) == ops::sample<float, 2>({700, 1})(350, 0) + ops::sample<float, 2>({1, 531})(0, 17));
}

TEST_CASE_TEMPLATE("reductions of expressions over every set of axes", T, int, float, double, f16) {
  for (const auto& shape : shapes) {
    const auto a = ops::sample<T, 3>(shape, 1), b = ops::sample<T, 3>(shape, 2);
    const auto x = ops::make({shape.begin(), shape.end()}, [&](const ops::coord& c) {
      return static_cast<double>(a(c[0], c[1], c[2])) * static_cast<double>(b(c[0], c[1], c[2]));
    });
    check_all_axes<T>(a * b, x);
    check_all_axes<T>(scattered(a, true) * b, x);
  }
}

TEST_CASE("long reductions are cut into pieces and joined") {
  for (const auto& shape :
       {index_array<3>{70000, 3, 1}, {2, 50000, 2}, {3, 9, 12000}, {40000, 1, 9}, {1, 100000, 300}}) {
    const auto a = ops::sample<float, 3>(shape, 4);
    const auto x = ops::values(a);
    const auto over = [&]<int Kept>(const std::vector<int>& axes) {
      ops::check_equal(ops::values(reduce<ir::op::add, Kept>(a, axes)),
                       reduced(x, axes, 0, [](double p, double q) { return p + q; }), 1e-6);
    };
    over.template operator()<2>({0});
    over.template operator()<2>({1});
    over.template operator()<1>({0, 1});
    over.template operator()<1>({0, 2});
    over.template operator()<0>({0, 1, 2});
  }
}

TEST_CASE("an f32 sum of 2^24 elements is accurate") {
  const std::int64_t n = 1 << 24;
  const auto tenths = full<float>(0.1f, n);
  CHECK(reduce<ir::op::add, 0>(tenths, {0}).item() == doctest::Approx(0.1f * static_cast<double>(n)).epsilon(1e-6));
  const tensor<float, 2> tall =
      detail::access::make<float, dims(2)>(detail::access::memory(tenths), tenths.data(), {n / 16, 16}, {16, 1});
  const auto columns = reduce<ir::op::add, 1>(tall, {0});
  for (auto c : columns.to_vector()) CHECK(c == doctest::Approx(0.1f * static_cast<double>(n / 16)).epsilon(1e-6));
}

TEST_CASE_TEMPLATE("floor, ceil and trunc keep the sign of zero", T, float, double) {
  const auto x = full<T>(T(-0.0), 37);
  x(5) = T(-0.25);
  const auto negative = [](const auto& y) {
    bool all = true;
    for (const T v : y.eval().to_vector()) all = all && v == 0 && std::signbit(v);
    return all;
  };
  CHECK(negative(ceil(x)));
  CHECK(negative(trunc(x)));
  x(5) = T(-0.0);
  CHECK(negative(floor(x)));
}

TEST_CASE("maximum and minimum pass NaN on, wherever it stands") {
  for (std::int64_t at : {0, 1, 40, 98, 99}) {
    const auto x = arange<float>(100);
    x(at) = std::nanf("");
    CHECK(std::isnan(reduce<ir::op::maximum, 0>(x, {0}).item()));
    CHECK(std::isnan(reduce<ir::op::minimum, 0>(x * 2, {0}).item()));
  }
  CHECK(reduce<ir::op::maximum, 0>(full<float>(-INFINITY, 9), {0}).item() == -INFINITY);
  CHECK(reduce<ir::op::minimum, 0>(tensor<std::int8_t, 1>{127, 127}, {0}).item() == 127);
}

TEST_CASE("logical and bitwise reductions") {
  const auto x = arange<float>(77);
  CHECK(reduce<ir::op::bit_or, 0>(x > 75.5f, {0}).item());
  CHECK(!reduce<ir::op::bit_or, 0>(x > 76.5f, {0}).item());
  CHECK(reduce<ir::op::bit_and, 0>(x >= 0, {0}).item());
  CHECK(!reduce<ir::op::bit_and, 0>(x != 50, {0}).item());
  CHECK(reduce<ir::op::bit_and, 0>(zeros<bool>(0), {0}).item());
  CHECK(!reduce<ir::op::bit_or, 0>(zeros<bool>(0), {0}).item());
  CHECK(reduce<ir::op::bit_and, 0>(tensor<std::uint8_t, 1>{0xf3, 0x3f}, {0}).item() == 0x33);
  CHECK(reduce<ir::op::mul, 0>(tensor<std::int8_t, 1>{100, 100, 3}, {0}).item() == static_cast<std::int8_t>(30000));
}

TEST_CASE("nothing to reduce") {
  CHECK(reduce<ir::op::add, 1>(zeros<float>(0, 3), {0}).to_vector() == std::vector<float>{0, 0, 0});
  CHECK(reduce<ir::op::mul, 1>(zeros<float>(3, 0), {1}).to_vector() == std::vector<float>{1, 1, 1});
  CHECK(reduce<ir::op::maximum, 1>(zeros<float>(0, 3), {1}).numel() == 0);
  const std::string text = ops::error_of([] { (void)reduce<ir::op::maximum, 1>(zeros<float>(0, 3), {0}); });
  CHECK(ops::contains(text, "[maximum] nothing to reduce: the shape is (0, 3)"));
  CHECK(reduce<ir::op::add, 0>(tensor<float, 0>(4), {}).item() == 4);
}
