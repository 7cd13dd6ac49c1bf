// Order: sorts, searches, quantiles, unique elements, histograms and segments against naive ones, on every backend, eagerly, along any axis,
// of every dtype, with derivatives, by lanes and with open extents.
#include <algorithm>
#include <limits>
#include <numeric>

#include "walk.hpp"

namespace {

using namespace sinter;
using ops::array;
using ops::coord;

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();

bool before(double a, double b) { return a < b || (b != b && a == a); }

/// f(elements of each row along the axis) is the row of the result.
template <class F>
array by_rows(const array& x, std::size_t axis, F&& f) {
  array out{x.extents, {}};
  std::vector<std::vector<double>> rows;
  std::int64_t inner = 1, n = x.extents[axis];
  for (std::size_t k = axis + 1; k < x.extents.size(); ++k) inner *= x.extents[k];
  const std::int64_t outer = n * inner > 0 ? ops::count(x.extents) / (n * inner) : 0;
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t k = 0; k < inner; ++k) {
      std::vector<double> row;
      for (std::int64_t i = 0; i < n; ++i) row.push_back(x.at[static_cast<std::size_t>((o * n + i) * inner + k)]);
      rows.push_back(f(row));
    }
  const std::int64_t m = rows.empty() ? 0 : static_cast<std::int64_t>(rows[0].size());
  out.extents[axis] = m;
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t k = 0; k < inner; ++k)
        out.at.push_back(rows[static_cast<std::size_t>(o * inner + k)][static_cast<std::size_t>(i)]);
  return out;
}

std::vector<double> order_of(const std::vector<double>& row, bool descending) {
  std::vector<double> order(row.size());
  std::iota(order.begin(), order.end(), 0.0);
  const auto at = [&](double i) { return row[static_cast<std::size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(), [&](double i, double j) {
    const bool numbers = at(i) == at(i) && at(j) == at(j);
    return descending && numbers ? before(at(j), at(i)) : before(at(i), at(j));
  });
  return order;
}

array argsorted(const array& x, std::size_t axis, bool descending = false, std::size_t count = SIZE_MAX) {
  return by_rows(x, axis, [&](const std::vector<double>& row) {
    auto order = order_of(row, descending);
    order.resize(std::min(count, order.size()));
    return order;
  });
}
array sorted(const array& x, std::size_t axis, bool descending = false, std::size_t count = SIZE_MAX) {
  return by_rows(x, axis, [&](const std::vector<double>& row) {
    auto order = order_of(row, descending);
    order.resize(std::min(count, order.size()));
    for (double& i : order) i = row[static_cast<std::size_t>(i)];
    return order;
  });
}

double quantile_of(std::vector<double> row, double q, interpolation method) {
  std::sort(row.begin(), row.end(), before);
  if (row.back() != row.back()) return not_a_number;
  const double at = q * static_cast<double>(row.size() - 1);
  const double a = row[static_cast<std::size_t>(std::floor(at))], b = row[static_cast<std::size_t>(std::ceil(at))];
  switch (method) {
    case interpolation::lower:
      return a;
    case interpolation::higher:
      return b;
    case interpolation::nearest:
      return row[static_cast<std::size_t>(std::nearbyint(at))];
    case interpolation::midpoint:
      return a == b ? a : a + (b - a) / 2;
    default:
      return a == b ? a : a + (b - a) * (at - std::floor(at));
  }
}

array quantiles(const array& x, std::size_t axis, double q, interpolation method = interpolation::linear) {
  array r = by_rows(x, axis,
                    [&](const std::vector<double>& row) { return std::vector<double>{quantile_of(row, q, method)}; });
  r.extents.erase(r.extents.begin() + static_cast<std::ptrdiff_t>(axis));
  return r;
}

array searched(const std::vector<double>& sorted, const array& x, bool right) {
  return ops::map(x, [&](double v) {
    const auto at = right ? std::upper_bound(sorted.begin(), sorted.end(), v, before)
                          : std::lower_bound(sorted.begin(), sorted.end(), v, before);
    return static_cast<double>(at - sorted.begin());
  });
}

/// Ties everywhere, and of floats NaN, infinities and both zeros.
template <class T, int R>
tensor<T, R> ties(const index_array<R>& extents, int seed) {
  tensor<T, R> x = ops::sample<T, R>(extents, seed);
  if constexpr (is_float(dtype_of<T>)) {
    const double odd[] = {not_a_number, -inf, 0.0, -0.0, inf, not_a_number, -0.0};
    for (std::int64_t i = 0, k = 0; i < x.numel(); i += 3 + i % 5)
      x.data()[i] = static_cast<T>(static_cast<float>(odd[k++ % 7]));
  }
  return x;
}

/// Orders of rows along both axes.
template <class T>
void orders(ops::walk& w, const tensor<T, 2>& x, int k) {
  const array v = ops::values(x);
  w.row(
      "sort", sorted(v, 1), 0, [](auto a) { return sort(a); }, x);
  w.row(
      "sort<0> descending", sorted(v, 0, true), 0, [](auto a) { return sort<0>(a, {.descending = true}); }, x);
  w.row(
      "argsort", argsorted(v, 1), 0, [](auto a) { return argsort(a, axis<1>); }, x);
  w.row(
      "argsort descending", argsorted(v, 1, true), 0, [](auto a) { return argsort(a, {.descending = true}); }, x);
  w.row(
      "argsort of a transpose", argsorted(v, 0), 0, [](auto a) { return transpose(argsort(transpose(a))); }, x);
  w.row(
      "topk", sorted(v, 1, true, static_cast<std::size_t>(k)), 0, [k](auto a) { return topk(a, k).values; }, x);
  w.row(
      "topk places", argsorted(v, 0, false, 2), 0,
      [](auto a) { return topk<2>(a, axis<0>, {.largest = false}).indices; }, x);
  w.row(
      "topk of none", array{{v.extents[0], 0}, {}}, 0, [](auto a) { return topk(a, 0).values; }, x);
}

}  // namespace

TEST_CASE_TEMPLATE("sorts of every dtype", T, bool, std::int8_t, std::uint16_t, std::int64_t, std::uint64_t, bf16,
                   f8_e4m3, f8_e5m2, double) {
  ops::walk w;
  const auto x = ties<T, 2>({3, 17}, 1);
  const array v = ops::values(x);
  w.row(
      "sort", sorted(v, 1), 0, [](auto a) { return sort(a); }, x);
  w.row(
      "argsort descending", argsorted(v, 0, true), 0, [](auto a) { return argsort<0>(a, {.descending = true}); }, x);
  w.run();
}

TEST_CASE("extremes of integers keep their order") {
  ops::walk w;
  const auto row = [&](const auto& x) {
    w.row(
        "argsort", argsorted(ops::values(x), 0), 0, [](auto a) { return argsort(a); }, x);
  };
  row(tensor<std::int64_t, 1>{INT64_MAX, 0, INT64_MIN, -1, 1});
  row(tensor<std::uint64_t, 1>{UINT64_MAX, 0, 1, 1ull << 63});
  row(tensor<std::int32_t, 1>{INT32_MIN, 1, INT32_MAX, -1});
  row(tensor<std::uint32_t, 1>{UINT32_MAX, 0, 1u << 31});
  row(tensor<std::int8_t, 1>{-128, 127, 0, -1});
  w.run();
}

TEST_CASE("rows of every length: by insertion, by digits, in one network; nothing and one") {
  ops::walk w;
  orders(w, ties<float, 2>({3, 300}, 2), 7);
  for (const std::int64_t n : {2500, 9001}) {
    const auto x = ties<float, 2>({2, n}, 3);
    w.row(
        "long rows", argsorted(ops::values(x), 1), 0, [](auto a) { return argsort(a); }, x);
  }
  const auto x = ops::between<double, 2>({1, 3000}, -1, 1, 4);
  w.row(
      "f64", argsorted(ops::values(x), 1), 0, [](auto a) { return argsort(a * 2.0); }, x);
  const auto one = ties<float, 2>({2, 1}, 1), none = tensor<float, 2>(zeros<float>(3, 0));
  w.row(
      "one", ops::values(one), 0, [](auto a) { return sort(a); }, one);
  w.row(
      "none", array{{3, 0}, {}}, 0, [](auto a) { return sort(a); }, none);
  w.row(
      "no rows", array{{3, 0}, {}}, 0, [](auto a) { return argsort<0>(a); }, none);
  w.row(
      "none of one", array{{2, 0}, {}}, 0, [](auto a) { return topk(a, 0).indices; }, one);
  const auto cube = ties<float, 3>({3, 4, 5}, 6);
  w.row(
      "the middle axis", argsorted(ops::values(cube), 1), 0, [](auto a) { return argsort<1>(a); }, cube);
  w.run();
}

namespace {

/// Places of all elements of long rows, and of the first ones, in both directions.
template <class T>
void long_orders(ops::walk& w, const tensor<T, 2>& x, int few) {
  const array v = ops::values(x);
  const auto first = [&](bool descending) { return argsorted(v, 1, descending, static_cast<std::size_t>(few)); };
  w.row(
      "long rows", argsorted(v, 1), 0, [](auto a) { return argsort(a); }, x);
  w.row(
      "long rows, descending", argsorted(v, 1, true), 0, [](auto a) { return argsort(a, {.descending = true}); }, x);
  w.row(
      "the first", first(false), 0, [few](auto a) { return topk(a, few, axis<1>, {.largest = false}).indices; }, x);
  w.row(
      "the last", first(true), 0, [few](auto a) { return topk(a, few).indices; }, x);
}

}  // namespace

TEST_CASE(
    "long rows of every kind of key: tiles that are full or nearly empty, ties, rounds that pass on few or many") {
  ops::walk w;
  long_orders(w, ties<float, 2>({1, 4096}, 2), 1);
  long_orders(w, ties<float, 2>({3, 4097}, 3), 256);
  long_orders(w, ties<float, 2>({2, 2049}, 4), 257);
  long_orders(w, ops::sample<float, 2>({2, 9001}, 5), 10);
  long_orders(w, ties<double, 2>({2, 4099}, 6), 100);
  long_orders(w, ties<std::int64_t, 2>({1, 5000}, 7), 3);
  long_orders(w, ties<std::uint8_t, 2>({2, 6000}, 8), 30);
  long_orders(w, ties<bf16, 2>({1, 8192}, 9), 200);
  tensor<std::int32_t, 2> wide = zeros<std::int32_t>(1, 12345);
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < wide.numel(); ++i)
    wide.data()[i] = static_cast<std::int32_t>(state = state * 1664525u + 1013904223u);
  wide(0, 3) = INT32_MIN, wide(0, 4) = INT32_MAX, wide(0, 12344) = INT32_MAX;
  long_orders(w, wide, 17);
  long_orders(w, tensor<float, 2>(full<float>(0.5f, {2, 4500})), 5);
  w.run();
}

TEST_CASE("searches: before and behind equal ones, rows, another dtype, among nothing") {
  ops::walk w;
  const auto check = [&](const auto& rows, const auto& x) {
    const array v = ops::values(rows);
    for (const bool right : {false, true})
      w.row(
          "searchsorted", searched(v.at, ops::values(x), right), 0,
          [right](auto a, auto b) { return searchsorted(a, b, {.right = right}); }, rows, x);
  };
  check(sort(ties<float, 1>({31}, 1)).contiguous(), ties<float, 2>({4, 9}, 2));
  check(tensor<std::int64_t, 1>{-3, -3, 0, 0, 2}, ops::sample<std::int64_t, 1>({40}, 3));
  check(tensor<bool, 1>{false, true, true}, tensor<bool, 1>{true, false});
  check(tensor<float, 1>(zeros<float>(0)), ties<float, 1>({5}, 2));
  check(tensor<double, 1>{1, 2}, tensor<double, 0>(1.0));
  const tensor<float, 2> rows = sort(ties<float, 2>({3, 12}, 5)), x = ties<float, 2>({3, 7}, 6);
  const array a = ops::values(rows), b = ops::values(x);
  array want{{3, 7}, {}};
  for (std::size_t r = 0; r < 3; ++r) {
    const std::vector<double> row(a.at.begin() + static_cast<std::ptrdiff_t>(12 * r),
                                  a.at.begin() + static_cast<std::ptrdiff_t>(12 * r + 12));
    const array one = searched(
        row,
        {{7},
         {b.at.begin() + static_cast<std::ptrdiff_t>(7 * r), b.at.begin() + static_cast<std::ptrdiff_t>(7 * r + 7)}},
        true);
    want.at.insert(want.at.end(), one.at.begin(), one.at.end());
  }
  w.row(
      "rows", want, 0, [](auto s, auto v) { return searchsorted(s, v, {.right = true}); }, rows, x);
  w.run();
}

TEST_CASE("quantiles by every method; derivatives go to the elements that they are read from") {
  ops::walk w;
  const auto x = ops::between<double, 2>({5, 6}, -2, 2, 1);
  const array v = ops::values(x);
  w.smooth(
      "sort", sorted(v, 1), 0, [](auto a) { return sort(a); }, x);
  w.smooth(
      "topk", sorted(v, 0, true, 3), 0, [](auto a) { return topk(a, 3, axis<0>).values; }, x);
  w.smooth(
      "median", quantiles(v, 1, 0.5), 1e-13, [](auto a) { return median(a, axis<1>); }, x);
  const array medians = quantiles(v, 1, 0.5), parts = quantiles(v, 0, 0.25);
  w.smooth(
      "median, keepdims", array{{5, 1}, medians.at}, 1e-13, [](auto a) { return median(a, axis<-1>, keepdims); }, x);
  w.smooth(
      "quantile, keepdims", array{{1, 6}, parts.at}, 1e-13, [](auto a) { return quantile(a, 0.25, axis<0>, keepdims); },
      x);
  w.row(
      "median of all, keepdims", array{{1, 1}, quantiles(array{{30}, v.at}, 0, 0.5).at}, 1e-13,
      [](auto a) { return median(a, axis<>, keepdims); }, x);
  const array all{{30}, v.at};
  for (const auto m : {interpolation::linear, interpolation::lower, interpolation::higher, interpolation::nearest,
                       interpolation::midpoint})
    for (const double q : {0.0, 0.37, 1.0}) {
      w.row(
          "quantile", quantiles(v, 0, q, m), 1e-13, [=](auto a) { return quantile(a, q, axis<0>, {.method = m}); }, x);
      w.row(
          "percentile", quantiles(all, 0, q, m), 1e-13,
          [=](auto a) { return percentile(a, 100 * q, axis<>, {.method = m}); }, x);
    }
  const auto odd = ties<float, 2>({4, 9}, 2);
  w.row(
      "with NaN and infinities", quantiles(ops::values(odd), 1, 0.25), 1e-6,
      [](auto a) { return quantile(a, 0.25, axis<1>); }, odd);
  w.run();
}

TEST_CASE("quantiles between numbers whose sum or distance is more than the dtype holds, and beside an infinity") {
  ops::walk w;
  const auto both = [&](const char* name, float a, float b, double q, double half, double part) {
    const tensor<float, 1> x{b, a};
    w.row(
        name, array{{}, {half}}, 1e-6,
        [](auto t) { return quantile(t, 0.5, axis<>, {.method = interpolation::midpoint}); }, x);
    w.row(
        name, array{{}, {part}}, 1e-6, [q](auto t) { return quantile(t, q); }, x);
  };
  const float infinite = std::numeric_limits<float>::infinity();
  both("large", 3e38f, 3.2e38f, 0.25, 3.1e38, 3.05e38);
  both("opposite", -3e38f, 3e38f, 0.75, 0, 1.5e38);
  both("below", -infinite, 5, 0.75, -inf, -inf);
  both("above", 5, infinite, 0.25, inf, inf);
  const auto x = ops::between<double, 2>({3, 4}, -2, 2, 5);
  w.smooth(
      "a quarter", quantiles(ops::values(x), 1, 0.25), 1e-13, [](auto a) { return quantile(a, 0.25, axis<1>); }, x);
  w.run();
}

namespace {

/// The counts between neighbours of ascending edges, the last with its upper bound.
array counted(const array& x, const array& edges) {
  const std::size_t bins = edges.at.size() - 1;
  array out{{static_cast<std::int64_t>(bins)}, std::vector<double>(bins, 0)};
  for (const double v : x.at) {
    if (!(v >= edges.at[0] && v <= edges.at[bins])) continue;
    std::size_t i = static_cast<std::size_t>(std::upper_bound(edges.at.begin(), edges.at.end(), v) - edges.at.begin());
    if (v == edges.at[bins]) i = bins;
    ++out.at[i - 1];
  }
  return out;
}

}  // namespace

TEST_CASE("equal bins count between the edges that are given: near ones, those that coincide, of integers") {
  ops::walk w;
  const auto row = [&](const char* name, const auto& x, std::int64_t bins, double low, double high) {
    const auto edges = histogram(x, bins, low, high).edges;
    const array e = ops::values(edges);
    CHECK(e.at.size() == static_cast<std::size_t>(bins + 1));
    CHECK(std::is_sorted(e.at.begin(), e.at.end()));
    w.row(
        name, counted(ops::values(x), e), 0, [=](auto a) { return histogram(a, bins, low, high).counts; }, x);
  };
  tensor<float, 1> near = zeros<float>(40);
  for (std::int64_t i = 0; i < 40; ++i) near(i) = 1.f + static_cast<float>(i % 9 - 2) * 0x1p-23f;
  row("edges that coincide", near, 30, 1, 1 + 0x1p-21);
  row("a place of width 0", near, 3, 1, 1);
  row("thirds", ops::between<float, 1>({200}, 0, 1, 3), 3000, 0, 1);
  row("edges themselves", tensor<float, 1>(linspace<float>(-0.3, 0.9, 71)), 70, -0.3, 0.9);
  row("all that there is", tensor<float, 1>{-3e38f, -1, 0, 2e38f, 3e38f}, 5, -3e38, 3e38);
  row("halves", tensor<f16, 1>(cast<f16>(linspace<float>(0, 1e-6, 60))), 40, 0, 1e-6);
  row("bytes", tensor<f8_e4m3, 1>(cast<f8_e4m3>(linspace<float>(-4, 4, 60))), 50, -4, 4);
  row("integers", tensor<std::int32_t, 1>{0, 1, 2, 3, 4, 5, 9, 10, 11, -1}, 4, 0, 10);
  CHECK(histogram(tensor<std::int32_t, 1>{0, 1, 2, 3}, 4, 0, 10).edges(1) == 2.5);
  w.run();
}

TEST_CASE("unique elements, places that are not 0, histograms and counts") {
  ops::walk w;
  const auto x = ties<float, 2>({3, 8}, 4);
  std::vector<double> u = ops::values(x).at;
  std::sort(u.begin(), u.end(), before);
  u.erase(std::unique(u.begin(), u.end(), [](double a, double b) { return a == b || (a != a && b != b); }), u.end());
  const auto first = [&](std::size_t n, double fill) {
    std::vector<double> r = u;
    r.resize(n, fill);
    return array{{static_cast<std::int64_t>(n)}, r};
  };
  w.row(
      "unique, first", first(3, 0), 0, [](auto a) { return unique(a, {.size = 3}); }, x);
  w.row(
      "unique, filled", first(u.size() + 4, u[0]), 0, [n = u.size()](auto a) { return unique(a, {.size = n + 4}); }, x);
  w.row(
      "unique, a fill", first(u.size() + 4, -7), 0,
      [n = u.size()](auto a) { return unique(a, {.size = n + 4, .fill = -7}); }, x);
  constexpr std::int64_t large = (std::int64_t{1} << 53) + 1;
  CHECK(unique(tensor<std::int64_t, 1>{1}, {.size = 2, .fill = large})(1) == large);
  CHECK(nonzero(tensor<bool, 1>{true}, {.size = 2, .fill = large})[0](1) == large);
  const tensor<std::int32_t, 2> flags{{0, 2, 0}, {0, 0, 1}};
  w.row(
      "nonzero", array{{4}, {0, 1, -1, -1}}, 0, [](auto a) { return nonzero(a, {.size = 4, .fill = -1})[0]; }, flags);
  w.row(
      "nonzero, its columns", array{{1}, {1}}, 0, [](auto a) { return nonzero(a, {.size = 1})[1]; }, flags);
  const tensor<float, 1> h{0.f, 0.1f, 0.25f, 0.5f, 0.5f, 1.f, 2.f, -1.f, static_cast<float>(not_a_number), 0.99f, 0.3f};
  w.row(
      "histogram", array{{4}, {2, 2, 2, 2}}, 0, [](auto a) { return histogram(a, 4, 0, 1).counts; }, h);
  w.row(
      "its edges", array{{5}, {0, 0.25, 0.5, 0.75, 1}}, 0, [](auto a) { return histogram(a, 4, 0, 1).edges; }, h);
  w.row(
      "histogram of edges", array{{3}, {2, 4, 2}}, 0, [](auto a, auto e) { return histogram(a, e).counts; }, h,
      tensor<float, 1>{0, 0.25f, 0.75f, 1});
  w.row(
      "bincount", array{{4}, {1, 2, 0, 1}}, 0, [](auto a) { return bincount(a, {.size = 4}); },
      tensor<std::int64_t, 1>{1, 9, 0, 1, -3, 3});
  const tensor<float, 1> weights{0.5f, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
  w.row(
      "weights of bins", array{{4}, {1.5, 514, 12, 272}}, 0,
      [](auto a, auto by) { return histogram(a, 4, 0, 1, by).counts; }, h, weights);
  w.row(
      "weights between edges", array{{3}, {1.5, 526, 272}}, 0,
      [](auto a, auto e, auto by) { return histogram(a, e, by).counts; }, h, tensor<float, 1>{0, 0.25f, 0.75f, 1},
      weights);
  w.smooth(
      "bincount of weights", array{{4}, {4, 9, 0, 32}}, 0, [](auto a, auto by) { return bincount(a, by, {.size = 4}); },
      tensor<std::int64_t, 1>{1, 9, 0, 1, -3, 3}, tensor<double, 1>{1, 2, 4, 8, 16, 32});
  CHECK(bincount(tensor<int, 1>{2, 0}, tensor<float, 1>{3, 5}).to_vector() == std::vector<float>{5, 0, 3});
  CHECK(histogram(flags, 2, 0, 2, cast<double>(flags)).counts.to_vector() == std::vector<double>{0, 3});
  w.run();
}

TEST_CASE("quantiles of lists and of tensors") {
  ops::walk w;
  const auto x = ops::between<double, 3>({2, 7, 3}, -2, 2, 5);
  const auto v = ops::values(x);
  const auto both = [](const array& a, const array& b) {
    array all{{2}, a.at};
    all.extents.insert(all.extents.end(), a.extents.begin(), a.extents.end());
    all.at.insert(all.at.end(), b.at.begin(), b.at.end());
    return all;
  };
  const auto alone = [&](std::size_t axis, double q, interpolation m = interpolation::linear) {
    return quantiles(v, axis, q, m);
  };
  w.row(
      "a list", both(alone(1, 0.1), alone(1, 0.75)), 1e-13,
      [](auto a) {
        return quantile(a, {0.1, 0.75}, axis<1>);
      },
      x);
  w.row(
      "of the last axis, percents, a method",
      both(alone(2, 0.9, interpolation::higher), alone(2, 0.3, interpolation::higher)), 1e-13,
      [](auto a) {
        return percentile(a, {90, 30}, axis<-1>, {.method = interpolation::higher});
      },
      x);
  const tensor<double, 1> some{0.1, 0.73};
  w.smooth(
      "a tensor", both(alone(1, 0.1), alone(1, 0.73)), 1e-13, [](auto a, auto q) { return quantile(a, q, axis<1>); }, x,
      some);
  w.row(
      "a number in a tensor", alone(0, 0.3), 1e-13, [](auto a, auto q) { return percentile(a, q, axis<0>); }, x,
      tensor<double, 0>(30.));
  for (const auto m : {interpolation::lower, interpolation::nearest, interpolation::midpoint})
    w.row(
        "by method", both(alone(1, 0.1, m), alone(1, 0.73, m)), 1e-13,
        [m](auto a, auto q) { return quantile(a, q, axis<1>, {.method = m}); }, x, some);
  const tensor<float, 2> odd{{1, static_cast<float>(not_a_number), 3}, {1, 2, 4}};
  w.row(
      "NaN among them, and parts that are none",
      array{{3, 2}, {not_a_number, 2, not_a_number, not_a_number, not_a_number, 4}}, 0,
      [](auto a, auto q) { return quantile(a, q, axis<1>); }, odd, tensor<double, 1>{0.5, 1.5, 1});
  w.run();
  CHECK(quantile(odd, zeros<double>(0), axis<1>).numel() == 0);
  const tensor<double, dims{2, 7, 3}> fixed = x;
  static_assert(decltype(quantile(fixed, {0.1, 0.2, 0.3}, axis<1>))::static_shape == dims{3, 2, 3});
  static_assert(decltype(quantile(fixed, some, axis<1>))::static_shape == dims{dyn, 2, 3});
}

TEST_CASE("quantiles over several axes, and with those that are gone as ones") {
  ops::walk w;
  const auto x = ops::between<double, 3>({2, 7, 3}, -2, 2, 5);
  const array v = ops::values(x);
  // Over the first and the last axis: of each place of the middle one six elements.
  array outer{{7, 6}, {}};
  for (std::size_t j = 0; j < 7; ++j)
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t k = 0; k < 3; ++k) outer.at.push_back(v.at[(i * 7 + j) * 3 + k]);
  const auto of_outer = [&](std::vector<std::int64_t> extents, std::vector<double> parts,
                            interpolation m = interpolation::linear) {
    array all{std::move(extents), {}};
    for (const double q : parts)
      for (const double each : quantiles(outer, 1, q, m).at) all.at.push_back(each);
    return all;
  };
  const auto of_rows = [&](std::vector<std::int64_t> extents, std::vector<double> parts) {
    array all{std::move(extents), {}};
    for (const double q : parts)
      for (const double each : quantiles(v, 1, q).at) all.at.push_back(each);
    return all;
  };
  const auto of_all = [&](std::vector<std::int64_t> extents, std::vector<double> parts) {
    array all{std::move(extents), {}};
    for (const double q : parts) all.at.push_back(quantiles(array{{42}, v.at}, 0, q).at[0]);
    return all;
  };
  const tensor<double, 1> some{0.1, 0.73};
  // clang-format off
  w.smooth("median, two axes", of_outer({7}, {0.5}), 1e-13, [](auto a) { return median(a, axis<2, 0>); }, x);
  w.smooth("median, two axes kept", of_outer({1, 7, 1}, {0.5}), 1e-13, [](auto a) { return median(a, axis<0, -1>, keepdims); }, x);
  w.row("median, all kept", of_all({1, 1, 1}, {0.5}), 1e-13, [](auto a) { return median(a, keepdims); }, x);
  w.row("a number, all kept", of_all({1, 1, 1}, {0.3}), 1e-13, [](auto a) { return quantile(a, 0.3, keepdims); }, x);
  w.row("a number, kept", of_rows({2, 1, 3}, {0.3}), 1e-13, [](auto a) { return percentile(a, 30, axis<1>, keepdims); }, x);
  w.smooth("a list, kept", of_rows({2, 2, 1, 3}, {0.1, 0.75}), 1e-13, [](auto a) { return quantile(a, {0.1, 0.75}, axis<1>, keepdims); }, x);
  w.row("a list, two axes", of_outer({2, 7}, {0.1, 0.75}), 1e-13, [](auto a) { return quantile(a, {0.1, 0.75}, axis<0, 2>); }, x);
  w.row("a list, two axes kept, a method", of_outer({3, 1, 7, 1}, {0.9, 0.3, 0}, interpolation::lower), 1e-13,
        [](auto a) { return percentile(a, {90, 30, 0}, axis<0, 2>, keepdims, {.method = interpolation::lower}); }, x);
  w.row("a list, all kept", of_all({2, 1, 1, 1}, {0.1, 0.75}), 1e-13, [](auto a) { return percentile(a, {10, 75}, keepdims); }, x);
  w.row("a tensor, kept", of_rows({2, 2, 1, 3}, {0.1, 0.73}), 1e-13, [](auto a, auto q) { return quantile(a, q, axis<1>, keepdims); }, x, some);
  w.row("a tensor, two axes kept", of_outer({2, 1, 7, 1}, {0.1, 0.73}), 1e-13, [](auto a, auto q) { return percentile(a, 100 * q, axis<2, 0>, keepdims); }, x, some);
  w.row("a tensor, all kept", of_all({2, 1, 1, 1}, {0.1, 0.73}), 1e-13, [](auto a, auto q) { return quantile(a, q, keepdims); }, x, some);
  w.row("a number in a tensor, all kept", of_all({1, 1, 1}, {0.3}), 1e-13, [](auto a, auto q) { return quantile(a, q, keepdims); }, x, tensor<double, 0>(0.3));
  w.row("of an expression", of_outer({1, 7, 1}, {0.5}), 1e-13, [](auto a) { return median(a * 1, axis<0, 2>, keepdims); }, x);
  // clang-format on
  w.run();
  const tensor<double, dims{2, 7, 3}> fixed = x;
  static_assert(decltype(quantile(fixed, {0.1, 0.2, 0.3}, axis<1>, keepdims))::static_shape == dims{3, 2, 1, 3});
  static_assert(decltype(percentile(fixed, some, axis<0, 2>, keepdims))::static_shape == dims{dyn, 1, 7, 1});
  static_assert(decltype(median(fixed, axis<0, 2>))::static_shape == dims{7});
  CHECK(median(tensor<double, 0>(3.0)).item() == 3);
  CHECK(quantile(zeros<double>(0, 2, 3), {0.1, 0.5}, axis<1, 2>, keepdims).numel() == 0);
}

TEST_CASE("segments") {
  ops::walk w;
  const auto x = ops::between<double, 2>({7, 2}, -2, 2, 1);
  const tensor<std::int64_t, 1> ids{2, 0, 2, 3, 0, 2, 0};
  const auto folded = [&](double start, auto f) {
    return ops::make({5, 2}, [&](coord c) {
      double r = start;
      for (std::int64_t i = 0; i < 7; ++i)
        if (ids(i) == c[0]) r = f(r, x(i, c[1]));
      return r;
    });
  };
  w.smooth(
      "sum", folded(0, [](double a, double b) { return a + b; }), 1e-13,
      [](auto a, auto i) { return segment_sum(a, i, 5); }, x, ids);
  w.smooth(
      "prod", folded(1, [](double a, double b) { return a * b; }), 1e-13,
      [](auto a, auto i) { return segment_prod(a, i, 5); }, x, ids);
  w.row(
      "prod of integers and of halves, ids that are left out", array{{2}, {-15, 0}}, 0,
      [](auto a, auto i) {
        return cast<int>(segment_prod(a, i, 2)) * cast<int>(segment_prod(tensor<f16, 1>(cast<f16>(a)), i, 2)) / -15;
      },
      tensor<int, 1>{3, 7, -5, 9}, tensor<int, 1>{0, 2, 0, -1});
  w.row(
      "max", folded(-inf, [](double a, double b) { return std::max(a, b); }), 0,
      [](auto a, auto i) { return segment_max(a, i, 5); }, x, ids);
  w.row(
      "min", folded(inf, [](double a, double b) { return std::min(a, b); }), 0,
      [](auto a, auto i) { return segment_min(a, i, 5); }, x, ids);
  w.smooth(
      "max of rows that there are",
      array{{1, 2}, {std::max({x(1, 0), x(4, 0), x(6, 0)}), std::max({x(1, 1), x(4, 1), x(6, 1)})}}, 0,
      [](auto a, auto i) { return segment_max(a, i, 1); }, x, ids);
  const array counts{{5}, {3, 0, 3, 1, 0}};
  w.row(
      "mean",
      ops::make({5, 2},
                [&](coord c) {
                  double r = 0;
                  for (std::int64_t i = 0; i < 7; ++i)
                    if (ids(i) == c[0]) r += x(i, c[1]);
                  return r / ops::get(counts, {c[0]});
                }),
      1e-13, [](auto a, auto i) { return segment_mean(a, i, 5); }, x, ids);
  const tensor<float, 1> odd{1, static_cast<float>(not_a_number), 3};
  w.row(
      "min with NaN", array{{2}, {1, not_a_number}}, 0, [](auto a, auto i) { return segment_min(a, i, 2); }, odd,
      tensor<std::int32_t, 1>{0, 1, 1});
  w.row(
      "max of halves", array{{2}, {-inf, 5}}, 0, [](auto a, auto i) { return segment_max(a, i, 2); },
      tensor<f16, 1>{f16(5.f), f16(4.f)}, tensor<std::int32_t, 1>{1, 1});
  w.row(
      "max of integers", array{{2}, {-128, 5}}, 0, [](auto a, auto i) { return segment_max(a, i, 2); },
      tensor<std::int8_t, 1>{5, 4}, tensor<std::int32_t, 1>{1, 1});
  w.row(
      "max of bytes without an infinity", array{{2}, {-448, 5}}, 0, [](auto a, auto i) { return segment_max(a, i, 2); },
      tensor<f8_e4m3, 1>{f8_e4m3(5.f), f8_e4m3(4.f)}, tensor<std::int32_t, 1>{1, 1});
  w.row(
      "min of bytes", array{{3}, {inf, 4, inf}}, 0, [](auto a, auto i) { return segment_min(a, i, 3); },
      tensor<f8_e5m2, 1>{f8_e5m2(5.f), f8_e5m2(4.f)}, tensor<std::int32_t, 1>{1, 1});
  w.row(
      "sum of bytes", array{{2}, {0, 9}}, 0, [](auto a, auto i) { return segment_sum(a, i, 2); },
      tensor<f8_e4m3, 1>{f8_e4m3(5.f), f8_e4m3(4.f)}, tensor<std::int32_t, 1>{1, 1});
  w.row(
      "median of bytes", array{{}, {4.5}}, 0, [](auto a) { return median(a); },
      tensor<f8_e4m3, 1>{f8_e4m3(5.f), f8_e4m3(4.f)});
  w.run();
}

namespace {

using matrix = tensor<float, 2>;

/// The function of tensors elsewhere, compiled and perhaps alone, is that of the host.
template <class F>
void check_open(const char* name, const F& f, const std::vector<std::pair<int, int>>& extents, bool alone) {
  CAPTURE(std::string(name));
  const auto open = compile(f, {.dynamic = dynamic::yes});
  const device on = device_count() > 0 ? device::cuda(0) : device::cpu();
  for (const auto& e : extents) {
    CAPTURE(e.second);
    const matrix x = ties<float, 2>({e.first, e.second}, e.first + e.second);
    const array want = ops::values(f(x));
    ops::check_equal(ops::values(open(x)), want);
    ops::check_equal(ops::values(open(x.to(on)).to(device::cpu())), want);
    if (alone) ops::check_equal(ops::values(f(x.to(on)).to(device::cpu())), want);
  }
}

}  // namespace

TEST_CASE("open extents, and tensors of a GPU: short rows, long rows, one") {
  check_open(
      "argsort", [](const matrix& x) { return argsort(x); }, {{4, 6}, {6, 3000}, {2, 130}, {2, 10000}, {4, 2}}, true);
  check_open(
      "the rest",
      [](const matrix& x) {
        const auto rows = sort<0>(x);
        const tensor<float, 1> u = unique(x, {.size = 5}), q = median(x, axis<0>);
        return tensor<float, 1>(
            concat<0>(concat<0>(cast<float>(flatten(searchsorted(u, rows))), cast<float>(nonzero(x, {.size = 9})[1])),
                      concat<0>(flatten(topk(x, 2).values), where(isnan(q), 0.f, q))));
      },
      {{4, 6}, {2, 130}}, false);
}

TEST_CASE("lanes are rows") {
  const matrix x = ties<float, 2>({4, 11}, 3), y = sort(ties<float, 2>({4, 6}, 5));
  const tensor<float, 1> shared = sort(ties<float, 1>({9}, 2));
  using vec = tensor<float, 1>;
  const auto row = [](const matrix& a, std::int64_t i) { return vec(squeeze<0>(slice<0>(a, i, i + 1))); };
  const auto check = [&](const char* name, const auto& f) {
    CAPTURE(std::string(name));
    const auto lanes = [&](const matrix& a, const matrix& b) { return vmap(f)(a, b); };
    const array eager = ops::values(lanes(x, y));
    ops::check_equal(ops::values(compile(lanes)(x, y)), eager);
    for (std::int64_t i = 0; i < 4; ++i) {
      const array one = ops::values(f(row(x, i), row(y, i)));
      const auto from = eager.at.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(i) * one.at.size());
      ops::check_equal({one.extents, {from, from + static_cast<std::ptrdiff_t>(one.at.size())}}, one);
    }
  };
  check("sort", [](const vec& a, const vec&) { return sort(a); });
  check("argsort", [](const vec& a, const vec&) { return argsort(a, {.descending = true}); });
  check("searchsorted", [](const vec& a, const vec& b) { return searchsorted(b, a); });
  check("searchsorted among shared ones", [&](const vec& a, const vec&) { return searchsorted(shared, a); });
  check("searchsorted for shared ones", [&](const vec&, const vec& b) { return searchsorted(b, shared); });
  check("unique", [](const vec& a, const vec&) { return unique(a, {.size = 4}); });
  check("median", [](const vec& a, const vec&) { return median(a); });
}

TEST_CASE("permutations and choices: each element as likely, on every backend the same") {
  const auto f = [](const key& k, const tensor<float, 2>& x) {
    const auto [a, b, c] = split<3>(k);
    return std::tuple(permutation(a, x.size(0)), choice(b, x, 40), choice(c, x, 4, false));
  };
  const tensor<float, 2> x = reshape(tensor<float, 1>(arange<float>(24)), 12, 2);
  options reference, open;
  reference.backend = open.backend = "reference";
  open.dynamic = dynamic::yes;
  const auto closed = compile(f), any = compile(f, open);
  const device on = device_count() > 0 ? device::cuda(0) : device::cpu();
  std::vector<int> first(12), chosen(12), kept(12);
  for (int seed = 0; seed < 600; ++seed) {
    const key k = make_key(seed);
    const auto [p, with, without] = f(k, x);
    std::vector<std::int64_t> all = p.to_vector();
    ++first[static_cast<std::size_t>(all[0])];
    std::sort(all.begin(), all.end());
    for (std::int64_t i = 0; i < 12; ++i) REQUIRE(all[static_cast<std::size_t>(i)] == i);
    for (std::int64_t i = 0; i < 40; ++i) {
      REQUIRE(with(i, 1) == with(i, 0) + 1);
      ++chosen[static_cast<std::size_t>(with(i, 0) / 2)];
    }
    for (std::int64_t i = 0; i < 4; ++i) {
      ++kept[static_cast<std::size_t>(without(i, 0) / 2)];
      for (std::int64_t j = 0; j < i; ++j) REQUIRE(without(i, 0) != without(j, 0));
    }
    if (seed >= 2) continue;
    const auto same = [&, p = p, with = with, without = without](const auto& got) {
      CHECK(std::get<0>(got).to(device::cpu()).to_vector() == p.to_vector());
      CHECK(std::get<1>(got).to(device::cpu()).to_vector() == with.to_vector());
      CHECK(std::get<2>(got).to(device::cpu()).to_vector() == without.to_vector());
    };
    same(closed(k, x));
    same(any(k, x));
    same(f(k, x.to(on)));
    same(closed(key{k.state.to(on)}, x.to(on)));
  }
  for (std::size_t i = 0; i < 12; ++i) {
    CHECK(std::abs(first[i] - 50) < 28);
    CHECK(std::abs(chosen[i] - 2000) < 180);
    CHECK(std::abs(kept[i] - 200) < 50);
  }
  CHECK(permutation(make_key(1), 0).size(0) == 0);
  CHECK(choice(make_key(1), zeros<float>(0), 0).size(0) == 0);
  const stacked<key> keys = split_stacked(make_key(5), 3);
  const tensor<std::int64_t, 2> lanes = compile(vmap([](const key& k) { return permutation(k, 6); }), reference)(keys);
  for (int i = 0; i < 3; ++i)
    CHECK(tensor<std::int64_t, 1>(lanes[i]).to_vector() ==
          permutation(split(make_key(5), 3)[std::size_t(i)], 6).to_vector());
}

TEST_CASE("without a size the count is read, and ends a graph") {
  const auto f = [](const tensor<float, 1>& x) {
    return std::tuple(unique(x * 2.f), nonzero(x > 1.f)[0], bincount(cast<std::int64_t>(x)));
  };
  const auto compiled = compile(f);
  for (const auto& x : {tensor<float, 1>{3, 1, 3, 0}, tensor<float, 1>{5, 5, 5, 5}, tensor<float, 1>{0, 1, 2, 3}}) {
    const auto [a, b, c] = f(x);
    const auto [d, e, g] = compiled(x);
    CHECK(d.to_vector() == a.to_vector());
    CHECK(e.to_vector() == b.to_vector());
    CHECK(g.to_vector() == c.to_vector());
  }
  CHECK(unique(tensor<float, 1>{3, 1, 3, 0}).to_vector() == std::vector<float>{0, 1, 3});
  CHECK(unique(zeros<float>(0)).size(0) == 0);
  CHECK(nonzero(zeros<float>(3, 2))[1].size(0) == 0);
  CHECK(bincount(zeros<std::int64_t>(0)).size(0) == 0);
}

TEST_CASE("what cannot be is refused") {
  const tensor<float, 2> x = ops::sample<float, 2>({2, 3});
  const tensor<float, 1> none = zeros<float>(0);
  const auto says = [](const char* what, const auto& f) { CHECK(ops::contains(ops::error_of(f), what)); };
  says("[topk] 4 elements of axis 1 of (2, 3); give 0 to its extent", [&] { topk(x, 4); });
  says("[topk] -1 elements", [&] { topk(x, -1); });
  says("[quantile] 1.5 is not in [0, 1]", [&] { quantile(x, 1.5); });
  says("[quantile] nan is not in [0, 1]", [&] { quantile(x, not_a_number); });
  says("[percentile] -1 is not in [0, 100]", [&] { percentile(x, -1); });
  says("[percentile] 101 is not in [0, 100]", [&] { percentile(x, {1, 101}); });
  says("[bincount] there are 2 elements and 3 weights; give one for each", [&] {
    bincount(tensor<int, 1>{1, 0}, tensor<float, 1>{1, 2, 3});
  });
  says("[histogram] there are 6 elements and 2 weights", [&] { histogram(x, 2, 0, 1, tensor<float, 1>{1, 2}); });
  says("[segment_prod] the size -1 is negative", [&] { segment_prod(x, tensor<int, 1>{1, 0}, -1); });
  says("[compress] the size -1 is negative", [&] { compress(x, tensor<bool, 1>{true, false}, {.size = -1}); });
  says("[median] of nothing: axis 0 of (0,) is empty", [&] { median(none); });
  says("[quantile] of nothing: axis 1 of (2, 0) is empty",
       [&] { quantile(zeros<float>(3, 2, 0), 0.5, axis<0, 2>, keepdims); });
  says("[percentile] 101 is not in [0, 100]", [&] { percentile(x, {1, 101}, keepdims); });
  says("[searchsorted] rows of (2, 3) and of (3, 3) differ in number", [&] {
    searchsorted(x, ops::sample<float, 2>({3, 3}));
  });
  says("[unique] x has no element to fill with", [&] { unique(none, {.size = 2}); });
  says("[nonzero] the size -1 is negative", [&] { nonzero(x, {.size = -1}); });
  says("[choice] 4 elements of axis 0 of (2,); give 0 to its extent", [&] { choice(make_key(1), x, 4, false); });
  says("[choice] x has no rows", [&] { choice(make_key(1), none, 1); });
  says("[permutation]", [&] { permutation(make_key(1), -1); });
  says("[fill] the number 300 does not fit i8", [&] { unique(tensor<std::int8_t, 1>{1}, {.size = 3, .fill = 300}); });
  says("[fill] the number 0.5 does not fit i64", [&] { nonzero(x, {.size = 3, .fill = 0.5}); });
  says("[bincount] a result of 9223372036854775807 elements", [&] { bincount(tensor<std::int64_t, 1>{1, INT64_MAX}); });
  says("[segment_sum] a result of 9223372036854775807 elements", [&] {
    segment_sum(x, tensor<std::int64_t, 1>{1, 0}, INT64_MAX);
  });
  says("[histogram] a result of 9223372036854775807 elements", [&] { histogram(x, INT64_MAX, 0, 1); });
  says("[histogram] a bound is not finite in f32; cast", [&] { histogram(x, 4, 0, 1e300); });
  says("[histogram] 0 bins", [&] { histogram(x, 0, 0, 1); });
  says("[histogram] the range is not finite", [&] { histogram(x, 3, 1, 0); });
  says("[histogram] there are fewer than two edges", [&] { histogram(x, tensor<float, 1>{1}); });
  says("[topk] 4 elements", [&] { compile([](const tensor<float, 2>& a) { return topk(a, 4).values; })(x); });
}

TEST_CASE("segments want an id for each row, eagerly, compiled and with open extents") {
  using labels = tensor<std::int64_t, 1>;
  const auto refused = [](const std::string& name, const auto& f) {
    INFO(name);
    const auto fixed = compile(f, {.backend = "reference"});
    const auto open = compile(f, {.dynamic = dynamic::yes, .backend = "reference"});
    const auto x = ops::sample<float, 2>({3, 2});
    const auto says = [&](const auto& g, const tensor<float, 2>& x, const labels& i) {
      const std::string want = "[" + name + "] x is (" + std::to_string(std::int64_t(x.size(0))) + ", 2), ids are (" +
                               std::to_string(std::int64_t(i.size(0))) + ",); give an id for each row of x";
      const std::string text = ops::error_of([&] { g(x, i); });
      CHECK_MESSAGE(ops::contains(text, want), text);
      CHECK(ops::contains(text, "order_test.cpp:"));
    };
    for (const labels& i : {labels{1}, labels{0, 1}, labels{0, 1, 0, 1}, zeros<std::int64_t>(0)}) {
      says(f, x, i);
      says(fixed, x, i);
      says(open, x, i);
    }
    says(f, tensor<float, 2>(slice<0>(x, 0, 1)), labels{0, 1});
    says(f, zeros<float>(0, 2), labels{0});
    for (const std::int64_t n : {3, 5, 8}) {
      const auto y = ops::sample<float, 2>({n, 2});
      const labels i = arange<std::int64_t>(n) % 2;
      CHECK(open(y, i).to_vector() == f(y, i).to_vector());
    }
    says(open, ops::sample<float, 2>({9, 2}), labels{0, 1, 1});
  };
  const auto as = [](const auto& y) { return tensor<float, 2>(y); };
  refused("segment_sum", [&](const tensor<float, 2>& x, const labels& i) { return as(segment_sum(x, i, 2)); });
  refused("segment_prod", [&](const tensor<float, 2>& x, const labels& i) { return as(segment_prod(x, i, 2)); });
  refused("segment_mean", [&](const tensor<float, 2>& x, const labels& i) { return as(segment_mean(x, i, 2)); });
  refused("segment_max", [&](const tensor<float, 2>& x, const labels& i) { return as(segment_max(x, i, 2)); });
  refused("segment_min", [&](const tensor<float, 2>& x, const labels& i) { return as(segment_min(x, i, 2)); });
}

TEST_CASE("one long row is sorted by all threads as by one: stable, NaN last") {
  const std::int64_t n = (1 << 17) + 3;
  std::vector<float> values;
  for (std::int64_t i = 0; i < n; ++i)
    values.push_back(i % 1009 == 7 ? std::numeric_limits<float>::quiet_NaN()
                                   : static_cast<float>((i * 7919) % 4001 - 2000) / 8);
  std::vector<std::int64_t> want(values.size());
  std::iota(want.begin(), want.end(), 0);
  std::stable_sort(want.begin(), want.end(), [&](std::int64_t i, std::int64_t j) {
    const float a = values[static_cast<std::size_t>(i)], b = values[static_cast<std::size_t>(j)];
    return a < b || (b != b && a == a);
  });
  const auto row = from_span(values);
  const auto f = [](const tensor<float, 1>& x) { return argsort(x); };
  CHECK(f(row).to_vector() == want);
  CHECK(compile(f)(row).to_vector() == want);
  const tensor<std::int64_t, 1> same = full<std::int64_t>(7, n);
  CHECK(argsort(same).to_vector() == arange<std::int64_t>(n).to_vector());
  const auto whole = cast<std::int64_t>(arange<std::int64_t>(n) * -7919 % 65537) - 32768;
  auto ascending = tensor<std::int64_t, 1>(whole).to_vector();
  std::sort(ascending.begin(), ascending.end());
  CHECK(sort(tensor<std::int64_t, 1>(whole)).to_vector() == ascending);
}
