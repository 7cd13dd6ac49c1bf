// Shapes with quotients, remainders and products of open extents: one specialisation answers all sizes.
#include <doctest/doctest.h>

#include "../close.hpp"
#include "../front/ops_support.hpp"
#include "size_programs.hpp"

using namespace size_programs;

namespace {

/// fn at ten sizes against what it gives eagerly.
auto same_at_all_sizes(const options& how) {
  return [how](const std::string& name, auto fn) {
    CAPTURE(name);
    const auto f = compile(fn, how);
    for (const auto& extents : sizes) {
      const auto h = extents.first, w = extents.second;
      CAPTURE(h);
      CAPTURE(w);
      const matrix x = normal<float>(make_key(h), h, w);
      const auto got = f(x);
      const auto want = evaluate(fn(x));
      REQUIRE(got.shape() == want.shape());
      check_close(got.to_vector(), want.to_vector(), 1e-4);
    }
    CHECK(f.specialisations() == 1);
  };
}
const options interpreted{.dynamic = dynamic::yes, .backend = "reference"}, kernels{.dynamic = dynamic::yes};

}  // namespace

TEST_CASE("windows and tiles of two open extents, interpreted") { windows(same_at_all_sizes(interpreted)); }
TEST_CASE("windows and tiles of two open extents") { windows(same_at_all_sizes(kernels)); }
TEST_CASE("ranges and parts of open extents, interpreted") { ranges(same_at_all_sizes(interpreted)); }
TEST_CASE("ranges and parts of open extents") { ranges(same_at_all_sizes(kernels)); }
TEST_CASE("images of open extents are resized, interpreted") { resizes(same_at_all_sizes(interpreted)); }
TEST_CASE("images of open extents are resized") { resizes(same_at_all_sizes(kernels)); }

TEST_CASE("what no algebra proves of two extents is a guard") {
  using vector = tensor<float, 1>;
  for (const char* backend : {"reference", "auto"}) {
    const options open{.dynamic = dynamic::yes, .backend = backend};
    // n / m * m == n for these calls; the others are refused as eagerly.
    const auto rows = compile([](vector x, vector y) { return (reshape(x, -1, y.size(0)) * y).eval(); }, open);
    for (const auto& [n, m] : {std::pair{12, 4}, {15, 5}, {35, 7}, {64, 8}, {18, 9}, {22, 11}}) {
      const vector x = arange<float>(n), y = arange<float>(m) + 1.f;
      const auto want = evaluate(reshape(x, n / m, m) * y);
      const auto got = rows(x, y);
      REQUIRE(got.shape() == want.shape());
      CHECK(got.to_vector() == want.to_vector());
    }
    CHECK(rows.specialisations() == 1);
    CHECK(ops::contains(ops::error_of([&] { rows(arange<float>(13), arange<float>(4)); }), "no extent fits"));
    // Two forms that are equal in these calls alone: operands of one shape all the same.
    const auto halves = compile(
        [](vector x, vector y) {
          return x.size(0) / 3 == y.size(0) / 5 ? (slice<0>(x, 0, x.size(0) / 3) + slice<0>(y, 0, y.size(0) / 5)).eval()
                                                : (x * 2.f).eval();
        },
        open);
    for (const auto& [n, m] : {std::pair{12, 20}, {13, 24}, {17, 26}, {35, 56}, {60, 100}}) {
      const vector x = arange<float>(n), y = arange<float>(m) + 1.f;
      CHECK(halves(x, y).to_vector() == evaluate(slice<0>(x, 0, n / 3) + slice<0>(y, 0, m / 5)).to_vector());
    }
    CHECK(halves.specialisations() == 1);
    CHECK(halves(arange<float>(12), arange<float>(33)).size(0) == 12);
    CHECK(halves.specialisations() == 2);
  }
}

TEST_CASE("what is divided by a difference of extents is guarded, and not computed where that is not positive") {
  using vector = tensor<float, 1>;
  const auto f = compile(
      [](vector x, vector y, vector z) {
        return (slice<0>(x, 0, x.size(0) / (y.size(0) - 5)) * z + static_cast<float>(x.size(0) % (y.size(0) - 5)))
            .eval();
      },
      {.dynamic = dynamic::yes, .backend = "reference"});
  const auto at = [&](int n, int m, int k) { return f(arange<float>(n), ones<float>(m), ones<float>(k)); };
  CHECK(at(12, 8, 4)(3) == 3);
  CHECK(at(13, 7, 6)(5) == 6);
  CHECK(at(29, 9, 7)(6) == 7);
  CHECK(ops::contains(ops::error_of([&] { at(12, 5, 4); }), "0"));
  CHECK(at(12, 2, 8)(7) == 7);  // 12 / -3 from the end
  CHECK(at(12, 8, 4)(3) == 3);
}

TEST_CASE("a quotient or a remainder that becomes an integer leaves the size open") {
  const auto f = compile(
      [](matrix x) {
        const int rest = x.size(0) % 4;
        return (x * static_cast<float>(rest)).eval();
      },
      {.dynamic = dynamic::yes, .backend = "reference"});
  for (int n = 8; n < 28; ++n) CHECK(f(ones<float>(n, 3))(0, 0) == static_cast<float>(n % 4));
  CHECK(f.specialisations() <= 4);
}
