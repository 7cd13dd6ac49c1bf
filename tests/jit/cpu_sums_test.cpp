// The error of compiled f32 sums of addends that are alike does not grow with their number.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <sinter/sinter.hpp>
#include <string>

using namespace sinter;

namespace {

constexpr double bound = 4e-6, tenth = 0.1F;

template <class G, class X>
void near(const std::string& what, const G& g, const X& x, double scale) {
  const auto y = g(x);
  double worst = 0;
  for (std::int64_t i = 0; i < y.numel(); ++i) worst = std::max(worst, std::abs(y.data()[i] / (tenth * scale) - 1));
  CHECK_MESSAGE(worst < bound, what << ": " << worst);
}

template <class F, class X>
void check(const std::string& what, F&& f, const X& x, double scale, dynamic open) {
  const auto g = compile(f, {.dynamic = open});
  if (open != dynamic::no) g(full<float>(0.1F, 40, 40)), g(full<float>(0.1F, 41, 39));
  near(what, g, x, scale);
}

}  // namespace

TEST_CASE("sums of very many equal addends") {
  constexpr std::int64_t n = 1 << 22;
  const auto all = [](auto x) { return sum(x); };
  const auto rows = [](auto x) { return sum(x, axis<1>); };
  const auto columns = [](auto x) { return sum(x, axis<0>); };
  const auto norm = [](auto x) { return x * 0.F + mean(x, axis<0>); };
  const auto both = [](auto x) { return sum(x * 0.F + mean(x, axis<1>, keepdims)); };
  const auto of_rows = [](auto x) { return sum(mean(x, axis<1>) * 1.5F); };
  for (const auto open : {dynamic::no, dynamic::yes}) {
    CAPTURE(static_cast<int>(open));
    check("one row", all, full<float>(0.1F, 1, 4 * n), 4 * n, open);
    check("many rows", all, full<float>(0.1F, n / 64, 300), n / 64 * 300, open);
    check("long rows", rows, full<float>(0.1F, 3, n), n, open);
    check("long ragged rows", rows, full<float>(0.1F, 2, n + 5), n + 5, open);
    check("three columns", columns, full<float>(0.1F, n, 3), n, open);
    check("columns", columns, full<float>(0.1F, n / 8, 40), n / 8, open);
    check("columns and their values", norm, full<float>(0.1F, n / 16, 40), 1, open);
    check("rows, then all", both, full<float>(0.1F, n / 16, 40), n / 16 * 40, open);
    check("rows' means", of_rows, full<float>(0.1F, n / 4, 4), n / 4 * 1.5, open);
  }
  const auto mean_of = compile([](auto x) { return mean(x); }, {.dynamic = dynamic::no});
  CHECK(std::abs(mean_of(full<float>(0.1F, 4 * n)).item() / tenth - 1) < bound);
  CHECK(std::abs(mean_of(full<float>(0.1F, 4 * n + 37)).item() / tenth - 1) < bound);
}

TEST_CASE("sums over axes around a kept one") {
  constexpr std::int64_t n = 1 << 22;
  const auto flat = full<float>(0.1F, n);
  for (const auto open : {dynamic::no, dynamic::yes}) {
    CAPTURE(static_cast<int>(open));
    const options how{.dynamic = open};
    const auto short_rows = [](auto x) { return sum(reshape(x, -1, 4, 8), axis<0, 2>); };
    const auto pairs = [](auto x) { return sum(reshape(x, -1, 4, 2), axis<0, 2>); };
    const auto long_rows = [](auto x) { return sum(reshape(x, -1, 4, 512), axis<0, 2>); };
    const auto centred = [](auto x) {
      const auto y = reshape(x, -1, 4, 8);
      return sum(y - mean(y, axis<0, 2>, keepdims) + 0.1F, axis<0, 2>);
    };
    const auto of_columns = [](auto x) {
      const auto y = reshape(x, 8, -1, 4, 8, 16);
      return sum(exp(y - max(y, axis<1, 3>, keepdims)) * 0.1F, axis<1, 3>);
    };
    near("short rows", compile(short_rows, how), flat, n / 4);
    near("pairs", compile(pairs, how), flat, n / 4);
    near("long rows", compile(long_rows, how), flat, n / 4);
    near("after a mean", compile(centred, how), flat, n / 4);
    near("columns", compile(of_columns, how), flat, n / 8 / 64);
  }
}

TEST_CASE("long sums keep infinities and NaN") {
  const auto rows = compile([](auto x) { return sum(x, axis<1>); });
  const auto columns = compile([](auto x) { return sum(x, axis<0>); });
  auto x = full<float>(1.F, 2, 40000);
  x.data()[3] = std::numeric_limits<float>::infinity();
  x.data()[50000] = std::numeric_limits<float>::quiet_NaN();
  CHECK(rows(x).data()[0] == std::numeric_limits<float>::infinity());
  CHECK(std::isnan(rows(x).data()[1]));
  auto y = full<float>(1.F, 40000, 2);
  y.data()[2] = std::numeric_limits<float>::infinity();
  CHECK(columns(y).data()[0] == std::numeric_limits<float>::infinity());
  CHECK(columns(y).data()[1] == 40000);
}
