// take, take_along_axis, one_hot and scatter_add against coordinate arithmetic; indices out of range.
#include <sinter/sinter.hpp>

#include "../ops_support.hpp"

using namespace sinter;
using ops::array;
using ops::check_both;
using ops::coord;

namespace {

using i64 = std::int64_t;
const auto x345 = ops::sample<float, 3>({3, 4, 5}, 7);
const tensor<i64, 2> rows{{2, 0}, {1, 1}, {0, 2}};
const tensor<std::int32_t, 1> columns{3, 0, 3, 1, 2, 0};

}  // namespace

TEST_CASE("take puts the index's axes in place of the axis") {
  const auto a = ops::values(x345), r = ops::values(rows), c = ops::values(columns);
  check_both(
      ops::make({3, 2, 4, 5},
                [&](const coord& p) {
                  return ops::get(a, {i64(ops::get(r, {p[0], p[1]})), p[2], p[3]});
                }),
      0, [](const auto& x, const auto& i) { return take(x, i); }, x345, rows);
  check_both(
      ops::make({3, 6, 5},
                [&](const coord& p) {
                  return ops::get(a, {p[0], i64(ops::get(c, {p[1]})), p[2]});
                }),
      0, [](const auto& x, const auto& i) { return take(x, i, axis<1>); }, x345, columns);
  check_both(
      ops::make({5, 1, 6},
                [&](const coord& p) {
                  return ops::get(a, {2, i64(ops::get(c, {p[2]})), 4 - p[0]}) + 1;
                }),
      0,
      [](const auto& x, const auto& i) {
        return permute<1, 0, 2>(take(transpose(flip<2>(slice<0>(x, -1)) + 1.f), i, axis<-1>));
      },
      x345, columns);
}

TEST_CASE("take_along_axis reads one element per index, and broadcasts off the axis") {
  const auto a = ops::values(x345);
  const tensor<i64, 3> index{{{0, 3, 1, 2, 0}}, {{1, 1, 1, 1, 1}}, {{3, 2, 1, 0, 3}}};
  const auto k = ops::values(index);
  check_both(
      ops::make({3, 1, 5},
                [&](const coord& p) {
                  return ops::get(a, {p[0], i64(ops::get(k, p)), p[2]});
                }),
      0, [](const auto& x, const auto& i) { return take_along_axis(x, i, axis<1>); }, x345, index);
  const tensor<i64, 3> few{{{4, 0}}};
  check_both(
      ops::make({3, 4, 2},
                [&](const coord& p) {
                  return ops::get(a, {p[0], p[1], p[2] == 0 ? 4 : 0});
                }),
      0, [](const auto& x, const auto& i) { return take_along_axis(x, i); }, x345, few);
  const auto wrong = ops::sample<i64, 3>({3, 3, 1});
  CHECK(ops::contains(ops::error_of([&] { (void)take_along_axis(x345, wrong); }),
                      "[take_along_axis] extents differ off the axis"));
}

TEST_CASE("one_hot marks the index, and nothing for an index outside") {
  check_both(
      ops::make({3, 2, 3},
                [&](const coord& p) {
                  return ops::get(ops::values(rows), {p[0], p[1]}) == double(p[2]);
                }),
      0, [](const auto& i) { return one_hot(i, 3); }, rows);
  check_both(
      array{{2, 2}, {0, 0, 0, 1}}, 0, [](const auto& i) { return one_hot<bool>(i, 2); }, tensor<i64, 1>{-1, 1});
  static_assert(std::is_same_v<decltype(one_hot<double>(rows, 3))::value_type, double>);
}

TEST_CASE("scatter_add adds rows like take's, and elements like take_along_axis's") {
  const auto a = ops::values(x345);
  const auto updates = ops::sample<float, 3>({3, 6, 5}, 9);
  const auto u = ops::values(updates), c = ops::values(columns);
  auto want = ops::make({3, 4, 5}, [&](const coord& p) {
    double s = ops::get(a, p);
    for (i64 i = 0; i < 6; ++i)
      if (i64(ops::get(c, {i})) == p[1]) s += ops::get(u, {p[0], i, p[2]});
    return s;
  });
  check_both(
      want, 1e-6, [](const auto& x, const auto& i, const auto& v) { return scatter_add(x, i, v, axis<1>); }, x345,
      columns, updates);
  const tensor<i64, 2> index{{0, 0, 2}, {1, 1, 1}};
  const auto v = ops::sample<std::int8_t, 2>({2, 3}, 4);
  const auto base = ops::sample<std::int8_t, 2>({2, 4}, 5);
  want = ops::make({2, 4}, [&](const coord& p) {
    double s = ops::get(ops::values(base), p);
    for (i64 i = 0; i < 3; ++i)
      if (i64(ops::get(ops::values(index), {p[0], i})) == p[1]) s += ops::get(ops::values(v), {p[0], i});
    return s;
  });
  check_both(
      want, 0, [](const auto& x, const auto& i, const auto& w) { return scatter_add(x, i, w, axis<1>); }, base, index,
      v);
  CHECK(ops::contains(ops::error_of([&] { (void)scatter_add(base, tensor<i64, 1>{1}, v); }),
                      "[scatter_add] the updates' shape"));
  // Off the axis base has updates' extents: one row is not two.
  CHECK(ops::contains(ops::error_of([&] { (void)scatter_add(slice<0>(base, 1), index, v, axis<1>); }),
                      "[scatter_add] the updates' shape"));
}

TEST_CASE("indices out of range are errors that name the index, its place and the extent") {
  const auto x = ops::sample<float, 2>({5, 3});
  const tensor<i64, 2> bad{{0, 1}, {4, 5}}, negative{{0, -6}};
  auto message = ops::error_of([&] { (void)take(x, bad); });
  CHECK(ops::contains(message, "[take] index 5 at position (1, 1) is out of range for an axis of extent 5"));
  CHECK(ops::contains(message, "indexing_test.cpp:"));
  CHECK(ops::contains(ops::error_of([&] { (void)take(x, negative); }), "index -6 at position (0, 1)"));
  CHECK(ops::contains(ops::error_of([&] { (void)take_along_axis(x, negative, axis<0>); }), "[take_along_axis]"));
  CHECK(ops::contains(ops::error_of([&] { (void)take_along_axis(x, slice<1>(negative, 1), axis<0>); }),
                      "index -6 at position (0, 0)"));
  CHECK(ops::contains(ops::error_of([&] {
                        (void)scatter_add(x, tensor<i64, 1>{5}, ops::sample<float, 2>({1, 3}));
                      }),
                      "[scatter_add] index 5 at position (0,)"));
  CHECK(ops::contains(ops::error_of([&] {
                        (void)take(ops::sample<float, 2>({0, 3}), tensor<i64, 1>{0});
                      }),
                      "axis of extent 0"));
  CHECK(ops::contains(ops::error_of([&] { (void)one_hot(bad, -1); }), "[one_hot]"));
}

TEST_CASE("nothing can be read from an empty axis, traced either") {
  const auto x = ops::sample<float, 2>({2, 0});
  const auto traced = [&](const auto& f, const auto& index) {
    return ops::error_of([&] { (void)ops::traced(f, x, index); });
  };
  CHECK(ops::contains(traced([](const auto& t, const auto& i) { return take(t, i, axis<1>); }, tensor<i64, 1>{0}),
                      "[take] axis 1 of (2, 0) is empty"));
  CHECK(ops::contains(traced([](const auto& t, const auto& i) { return take_along_axis(t, i); }, tensor<i64, 2>{{0}}),
                      "[take_along_axis] axis 1 of (2, 0) is empty"));
}

TEST_CASE_TEMPLATE("halves that meet are added in float and rounded once", T, f16, bf16) {
  const auto into = [](auto base, auto at, auto ones) { return scatter_add(base, at, ones); };
  const std::int64_t n = 5000;
  const tensor<T, 1> base = full<T>(T(0.5f), 2), added = ones<T>(n);
  const auto at = zeros<i64>(n);
  const double want = double(T(5000.5f));
  CHECK(double(into(base, at, added)(0)) == want);
  CHECK(double(into(base + T(0.f), at, added * T(1.f))(0)) == want);
  for (const char* backend : {"cpu", "reference"})
    CHECK(double(compile(into, {.backend = backend})(base, at, added)(0)) == want);
  // Rows that were read many times, and a running maximum that never changes.
  const auto read = grad([](tensor<T, 2> table, tensor<i64, 1> i) { return sum(cast<float>(take(table, i))); });
  const auto first = grad([](tensor<T, 1> x) { return sum(cast<float>(cummax<0>(x))); });
  const tensor<T, 1> falling = cast<T>(-arange<float>(300.f)).eval();
  for (const char* backend : {"cpu", "reference"}) {
    CHECK(double(compile(read, {.backend = backend})(ones<T>(3, 4), at)(0, 3)) == double(T(5000.f)));
    CHECK(double(compile(first, {.backend = backend})(falling)(0)) == 300);
  }
  CHECK(double(read(ones<T>(3, 4), at)(0, 3)) == double(T(5000.f)));
}

TEST_CASE("empty indices and empty rows") {
  const auto x = ops::sample<float, 2>({5, 3});
  const auto none = ops::sample<i64, 1>({0});
  check_both(
      array{{0, 3}, {}}, 0, [](const auto& t, const auto& i) { return take(t, i); }, x, none);
  check_both(
      array{{2, 0}, {}}, 0, [](const auto& t, const auto& i) { return take(t, i); }, ops::sample<float, 2>({5, 0}),
      tensor<i64, 1>{1, 2});
  check_both(
      ops::values(x), 0, [](const auto& t, const auto& i, const auto& u) { return scatter_add(t, i, u); }, x, none,
      ops::sample<float, 2>({0, 3}));
  check_both(
      array{{5, 0}, {}}, 0, [](const auto& t, const auto& i) { return take_along_axis(t, i); }, x,
      ops::sample<i64, 2>({5, 0}));
}
