// matmul against plain f64 loops: ranks 1 to n, broadcasting batches, views, every dtype, sizes around the blocks.
#include <sinter/front/compile/compile.hpp>
#include <sinter/front/functions/factories.hpp>
#include <sinter/front/functions/matmul.hpp>
#include <sinter/front/functions/pointwise.hpp>

#include <algorithm>
#include <cmath>

#include "../ops_support.hpp"

using namespace sinter;
using ops::array;
using ops::check_both;
using ops::coord;

namespace {

/// NumPy's matmul, one element at a time.
array product(array a, array b) {
  const bool row = a.extents.size() == 1, column = b.extents.size() == 1;
  if (row) a.extents.insert(a.extents.begin(), 1);
  if (column) b.extents.push_back(1);
  const std::size_t ra = a.extents.size(), rb = b.extents.size(), rank = std::max(ra, rb);
  coord extents(rank, 1);
  for (std::size_t i = 0; i + 2 < ra; ++i) extents[rank - ra + i] = a.extents[i];
  for (std::size_t i = 0; i + 2 < rb; ++i)
    if (b.extents[i] != 1) extents[rank - rb + i] = b.extents[i];
  extents[rank - 2] = a.extents[ra - 2];
  extents[rank - 1] = b.extents[rb - 1];
  auto c = ops::make(extents, [&](const coord& at) {
    coord ia(at.end() - static_cast<std::ptrdiff_t>(ra), at.end()),
        ib(at.end() - static_cast<std::ptrdiff_t>(rb), at.end());
    for (std::size_t i = 0; i + 2 < ra; ++i)
      if (a.extents[i] == 1) ia[i] = 0;
    for (std::size_t i = 0; i + 2 < rb; ++i)
      if (b.extents[i] == 1) ib[i] = 0;
    double sum = 0;
    for (std::int64_t k = 0; k < a.extents[ra - 1]; ++k) {
      ia[ra - 1] = k;
      ib[rb - 2] = k;
      sum += ops::get(a, ia) * ops::get(b, ib);
    }
    return sum;
  });
  if (column) c.extents.pop_back();
  if (row) c.extents.erase(c.extents.end() - (column ? 1 : 2));
  return c;
}

template <class T, int RA, int RB>
void check(const std::array<dim, RA>& a, const std::array<dim, RB>& b) {
  const auto x = ops::sample<T, RA>(a, 3);
  const auto y = ops::sample<T, RB>(b, 4);
  check_both(
      product(ops::values(x), ops::values(y)), ops::tolerance_of<T>(),
      [](const auto& p, const auto& q) { return matmul(p, q); }, x, y);
}

}  // namespace

TEST_CASE("matmul of every rank broadcasts its batches") {
  check<float, 1, 1>({5}, {5});
  check<float, 1, 2>({5}, {5, 3});
  check<float, 2, 1>({3, 5}, {5});
  check<float, 2, 2>({3, 5}, {5, 4});
  check<float, 3, 1>({2, 3, 5}, {5});
  check<float, 1, 3>({5}, {2, 5, 3});
  check<float, 3, 2>({2, 3, 5}, {5, 4});
  check<float, 2, 3>({3, 5}, {2, 5, 4});
  check<float, 4, 3>({2, 1, 3, 5}, {7, 5, 4});
  check<float, 3, 4>({1, 3, 5}, {2, 3, 5, 4});
  check<float, 3, 4>({7, 3, 5}, {1, 1, 5, 4});
}

TEST_CASE("matmul of every dtype") {
  check<double, 2, 2>({7, 9}, {9, 6});
  check<f16, 2, 2>({7, 9}, {9, 6});
  check<bf16, 2, 2>({7, 9}, {9, 6});
  check<std::int8_t, 2, 2>({7, 3}, {3, 6});
  check<std::uint16_t, 2, 2>({7, 9}, {9, 6});
  check<std::int32_t, 3, 3>({2, 7, 9}, {2, 9, 6});
  check<std::uint64_t, 2, 2>({7, 9}, {9, 6});
}

TEST_CASE("matmul of sizes around the blocks") {
  for (const std::int64_t n : {1, 2, 3, 6, 31, 97})
    for (const std::int64_t k : {1, 4, 255, 257}) {
      const auto x = ops::sample<float, 2>({n, k}, 5), y = ops::sample<float, 2>({k, 65}, 6);
      ops::check_equal(ops::values(matmul(x, y)), product(ops::values(x), ops::values(y)), 1e-5);
    }
}

TEST_CASE("matmul of views: transposed, stepped, reversed, broadcast, and expressions") {
  const auto x = ops::sample<float, 2>({6, 8}, 5), y = ops::sample<float, 2>({6, 8}, 6);
  const auto check_views = [&](auto f, auto g) {
    check_both(
        product(ops::values(f(x)), ops::values(g(y))), 1e-5,
        [&](const auto& p, const auto& q) { return matmul(f(p), g(q)); }, x, y);
  };
  check_views([](const auto& t) { return transpose(t); }, [](const auto& t) { return tensor(t); });
  check_views([](const auto& t) { return tensor(t); }, [](const auto& t) { return transpose(t); });
  check_views([](const auto& t) { return flip(t); }, [](const auto& t) { return transpose(flip<0>(t)); });
  check_views([](const auto& t) { return slice<1>(t, 0, 8, 3); }, [](const auto& t) { return slice<0>(t, 5, 2, -1); });
  check_views([](const auto& t) { return broadcast_to(slice<0>(t, 2, 3), 4, 8); },
              [](const auto& t) { return transpose(t); });
  check_views([](const auto& t) { return broadcast_to(slice<0>(t, 2, 3), 3, 4, 8); },
              [](const auto& t) { return permute<1, 0, 2>(reshape(t, 8, 3, 2)); });
  check_views([](const auto& t) { return t * 2.f; }, [](const auto& t) { return transpose(t + 1.f); });
}

TEST_CASE("matmul of nothing is zero, and of extents that differ an error") {
  check<float, 2, 2>({3, 0}, {0, 4});
  check<float, 2, 2>({0, 3}, {3, 4});
  check<float, 1, 1>({0}, {0});
  check<float, 3, 3>({0, 2, 3}, {1, 3, 4});
  const auto x = ops::sample<float, 2>({3, 4}), y = ops::sample<float, 2>({5, 6});
  const auto message = ops::error_of([&] { (void)matmul(x, y); });
  CHECK(ops::contains(message, "[matmul] inner extents differ: a is (3, 4), b is (5, 6)"));
  CHECK(ops::contains(message, "matmul_test.cpp:"));
  const auto p = ops::sample<float, 3>({2, 3, 4}), q = ops::sample<float, 3>({3, 4, 5});
  CHECK(ops::contains(ops::error_of([&] { (void)matmul(p, q); }), "batch extents"));
}

TEST_CASE("matmul keeps NaN, infinity, and the accuracy of long f16 sums") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const tensor<float, 2> a{{1, inf}, {0, nan}, {2, 3}, {0, inf}, {1, 1}}, b{{1, 0, 2, 1}, {1, 1, 0, -1}};
  check_both(
      product(ops::values(a), ops::values(b)), 0, [](const auto& p, const auto& q) { return matmul(p, q); }, a, b);
  auto ones = ops::sample<f16, 2>({8, 4096});
  ones.fill(f16(1.f));
  CHECK(static_cast<float>(matmul(ones, transpose(ones))(3, 4)) == 4096.f);
}

TEST_CASE("rounding errors of long f32 sums do not grow with the inner axis") {
  const std::int64_t k = 300'000;
  const auto f = compile([](const auto& a, const auto& b) { return matmul(a, b); });
  // Of sums of 256 that are added up: half a unit each, all the same way for equal numbers.
  const double bound = (256 + double(k) / 256) * 0x1p-24;
  const auto near = [&](const auto& c) {
    double worst = 0;
    for (const float x : c.to_vector()) worst = std::max(worst, std::fabs(x / (double{.1f} * double(k)) - 1));
    CHECK(worst < bound);
  };
  const auto check = [&](const auto& a, const auto& b) {
    near(matmul(a, b));
    near(f(a, b));
  };
  check(full<float>(.1f, k), ones<float>(k));
  check(full<float>(.1f, 2, k), ones<float>(k, 3));
  check(full<float>(.1f, 3, k), transpose(ones<float>(2, k)));
  check(full<float>(.1f, 4, k), ones<float>(k, 16));
  check(full<float>(.1f, 1, k), ones<float>(k, 40));
  check(full<float>(.1f, 1, k), transpose(ones<float>(7, k)));
}

TEST_CASE("matmul knows static extents") {
  static_assert(decltype(matmul(tensor<float, dims{dyn, 64}>(), tensor<float, dims{64, 10}>()))::static_shape ==
                dims{dyn, 10});
  static_assert(decltype(matmul(tensor<float, dims{7, 1, 3, 4}>(), tensor<float, dims{dyn, 4, 6}>()))::static_shape ==
                dims{7, dyn, 3, 6});
  static_assert(decltype(matmul(tensor<float, 1>(), tensor<float, 1>()))::rank == 0);
}
