// x[i], several indices, x.at(…), dynamic_slice and its update, compress, and scatters that do not add: values against loops on every
// backend, indices from the end, errors, and what is written in place.
#include <sinter/sinter.hpp>

#include "../ops_support.hpp"

using namespace sinter;
using ops::array;
using ops::check_both;
using ops::contains;
using ops::coord;
using ops::error_of;

namespace {

using i64 = std::int64_t;
const auto x345 = ops::sample<float, 3>({3, 4, 5}, 7);
const tensor<i64, 2> rows{{2, -3}, {1, -1}};
const tensor<std::int32_t, 1> columns{3, -4};

i64 wrapped(double i, i64 n) { return i < 0 ? i64(i) + n : i64(i); }

}  // namespace

TEST_CASE("x[i] is an element of the leading axis") {
  const auto a = ops::values(x345);
  for (const i64 i : {0, 2, -1, -3}) {
    const auto want = ops::make({4, 5}, [&](const coord& p) {
      return ops::get(a, {wrapped(double(i), 3), p[0], p[1]});
    });
    check_both(
        want, 0, [i](const auto& x) { return x[i] * 1.f; }, x345);
  }
  CHECK(x345[1].data() == &x345(1, 0, 0));
  CHECK(x345[-1][0][-2].item() == x345(2, 0, 3));
  CHECK(contains(error_of([&] { (void)x345[3]; }), "index 3 is out of range for an axis of extent 3"));
  CHECK(contains(error_of([&] { (void)x345[-4]; }), "places_test.cpp:"));
  const auto by_row = ops::make({2, 2, 4, 5}, [&](const coord& p) {
    return ops::get(a, {wrapped(ops::get(ops::values(rows), {p[0], p[1]}), 3), p[2], p[3]});
  });
  check_both(
      by_row, 0, [](const auto& x, const auto& i) { return x[i]; }, x345, rows);
}

TEST_CASE("several indices name elements of the first axes, in one kernel of a view, too") {
  const auto a = ops::values(x345), r = ops::values(rows), c = ops::values(columns);
  const auto want = ops::make({2, 2, 5}, [&](const coord& p) {
    return ops::get(a, {wrapped(ops::get(r, {p[0], p[1]}), 3), wrapped(ops::get(c, {p[1]}), 4), p[2]});
  });
  const auto several = [](const auto& x, const auto& i, const auto& j) { return take(x, i, j); };
  check_both(want, 0, several, x345, rows, columns);
  const auto turned = [](const auto& x, const auto& i, const auto& j) { return take(permute<2, 0, 1>(x), i, j); };
  const auto of_view = ops::make({2, 2, 5}, [&](const coord& p) {
    return ops::get(a, {wrapped(ops::get(r, {p[0], p[1]}), 3), wrapped(ops::get(c, {p[1]}), 4), p[2]});
  });
  check_both(of_view, 0, turned, permute<1, 2, 0>(x345).contiguous(), rows, columns);
  auto one = compile(turned);
  (void)one(permute<1, 2, 0>(x345).contiguous(), rows, columns);
  CHECK(one.report().kernels == 1);
  auto plain = compile(several);
  (void)plain(x345, rows, columns);
  CHECK(plain.report().kernels == 1);
  check_both(
      want, 0,
      [](const auto& x, const auto& i, const auto& j) {
        return gather_nd<2>(x, stack(i, broadcast_to(cast<i64>(j), 2, 2), axis<-1>));
      },
      x345, rows, columns);
  CHECK(contains(error_of([&] { (void)take(x345, rows, tensor<i64, 1>{4, 0}); }), "[take] index 4"));
  CHECK(contains(error_of([&] { (void)take(x345, rows, tensor<i64, 1>{1, 0, 2}); }), "[take]"));
  CHECK(contains(error_of([&] { (void)gather_nd<3>(x345, rows); }), "[gather_nd] the index is (2, 2)"));
  // Compiled, what is out of range is clamped, each index by itself.
  const tensor<i64, 1> far{7, -9}, near{0, 1};
  const auto clamped = compile(several)(slice<0>(x345, 0, 3), far, near);
  CHECK(clamped(0, 4) == x345(2, 0, 4));
  CHECK(clamped(1, 4) == x345(0, 1, 4));
}

TEST_CASE("x.at(…) is x with a part changed, and x stays as it was") {
  const auto before = x345.to_vector();
  const auto a = ops::values(x345);
  const auto y = ops::sample<float, 1>({5}, 3);
  const auto changed = [&](auto&& is_there, auto&& what) {
    return ops::make({3, 4, 5}, [&](const coord& p) { return is_there(p) ? what(ops::get(a, p), p) : ops::get(a, p); });
  };
  check_both(
      changed([](const coord& p) { return p[1] == 1 || p[1] == 2; },
              [&](double, const coord& p) { return double(y(p[2])); }),
      0, [](const auto& x, const auto& v) { return x.at(axis<1>, 1, -1).set(v); }, x345, y);
  check_both(
      changed([](const coord& p) { return p[0] == 2 && p[1] == 1; },
              [&](double e, const coord& p) { return double(float(e) + y(p[2])); }),
      1e-6, [](const auto& x, const auto& v) { return x.at(-1, 1).add(v); }, x345, y);
  check_both(
      changed([](const coord& p) { return p[0] != 1; }, [](double e, const coord&) { return std::min(e, 0.25); }), 0,
      [](const auto& x, const auto& i) { return x.at(i).min(0.25f); }, x345, tensor<i64, 1>{0, -1});
  check_both(
      changed([](const coord& p) { return p[0] == 1 && p[1] == 3 && p[2] == 0; },
              [](double e, const coord&) { return 3 * e; }),
      1e-6, [](const auto& x, const auto& i) { return x.at(1, i, -5).multiply(3); }, x345, tensor<i64, 0>(-1));
  check_both(
      ops::values(x345), 0, [](const auto& x, const auto& v) { return x.at(axis<0>, 2, 2).max(v); }, x345, y);
  CHECK(x345.to_vector() == before);
  CHECK(contains(error_of([&] { (void)x345.at(0, 4).set(1); }), "[at] index 4"));
  CHECK(contains(error_of([&] { (void)x345.at(0).set(ops::sample<float, 1>({3})); }), "[at]"));
  CHECK(contains(error_of([&] { (void)zeros<std::int8_t>(3).at(0).set(300); }), "300 does not fit"));
  // A number that is out of range is an error while tracing, too; of an open extent it is a condition of the trace.
  const auto error_compiled = [](auto f) { return error_of([&] { (void)compile(f)(x345); }); };
  const std::string range = " is out of range for an axis of extent ";
  CHECK(contains(error_compiled([](const tensor<float, 3>& x) { return x.at(3).set(1); }), "index 3" + range + "3"));
  CHECK(
      contains(error_compiled([](const tensor<float, 3>& x) { return x.at(0, -5).add(1); }), "index -5" + range + "4"));
  CHECK(contains(error_compiled([](const tensor<float, 3>& x) {
                   return x.at(tensor<i64, 1>{0, 1}, 0, 5).max(x[0][0]);
                 }),
                 "[at] index 5" + range + "5"));
  auto third = compile([](const tensor<float, 1>& x) { return x.at(2).set(7); });
  for (const i64 n : {3, 4, 6}) CHECK(third(ones<float>(n))(2) == 7);
  CHECK(contains(error_of([&] { (void)third(ones<float>(2)); }), "index 2" + range));
  // Compiled, what is out of range is dropped, also where another index is not.
  const auto dropped = compile([](const auto& x, const auto& i, const auto& j) { return x.at(i, j).set(9); });
  CHECK(dropped(x345, tensor<i64, 1>{3, 0}, tensor<i64, 1>{0, -5}).to_vector() == before);
}

TEST_CASE("what is written to an axis of nothing is dropped in compiled code") {
  const auto set = [](const auto& x, const auto& i) { return x.at(i).set(2); };
  const auto both = [](const auto& x, const auto& i) { return x.at(i, i).add(2); };
  const tensor<i64, 1> index{0, -1};
  for (const char* backend : {"reference", "cpu"}) {
    const auto one = compile(set, {.backend = backend});
    CHECK(one(zeros<float>(0), index).numel() == 0);
    CHECK(one(zeros<float>(3), index).to_vector() == std::vector<float>{2, 0, 2});
    const auto two = compile(both, {.backend = backend});
    CHECK(two(zeros<float>(0, 2), index).numel() == 0);
    CHECK(two(zeros<float>(2, 0), index).numel() == 0);
    CHECK(two(ones<float>(2, 2), index).to_vector() == std::vector<float>{3, 1, 1, 3});
  }
  const auto read = compile([](const tensor<float, 1>& x, const tensor<i64, 1>& i) { return x[i]; });
  CHECK(contains(error_of([&] { (void)read(zeros<float>(0), index); }), "is empty"));
  const auto several = compile([](const tensor<float, 2>& x, const tensor<i64, 1>& i) { return take(x, i, i); });
  CHECK(contains(error_of([&] { (void)several(zeros<float>(2, 0), index); }), "[take] axis 1 of (2, 0) is empty"));
}

TEST_CASE("updates that meet: the last is set, others are combined; halves and bool") {
  const tensor<i64, 1> meet{1, -2, 1, 2};  // of three: 1, 1, 1, 2
  const auto table = [&](auto base, auto updates, auto set, auto mul, auto low, auto high) {
    check_both(
        ops::values(set), 0, [](const auto& x, const auto& i, const auto& u) { return scatter_set(x, i, u); }, base,
        meet, updates);
    check_both(
        ops::values(mul), 0, [](const auto& x, const auto& i, const auto& u) { return scatter_mul(x, i, u); }, base,
        meet, updates);
    check_both(
        ops::values(low), 0, [](const auto& x, const auto& i, const auto& u) { return scatter_min(x, i, u); }, base,
        meet, updates);
    check_both(
        ops::values(high), 0, [](const auto& x, const auto& i, const auto& u) { return scatter_max(x, i, u); }, base,
        meet, updates);
  };
  using t8 = tensor<std::int8_t, 1>;
  table(t8{1, 2, 3}, t8{-5, 7, 4, 100}, t8{1, 4, 100}, t8{1, -24, 44}, t8{1, -5, 3}, t8{1, 7, 100});
  using f = tensor<float, 1>;
  const auto narrow = [&](auto type) {
    const auto as = [](const f& x) { return cast<decltype(type)>(x).eval(); };
    table(as({1, 2, 3}), as({-5, 7, 4, 0.5f}), as({1, 4, 0.5f}), as({1, -280, 1.5f}), as({1, -5, 0.5f}), as({1, 7, 3}));
  };
  narrow(f16{});
  narrow(f8_e4m3{});
  narrow(f8_e5m2{});
  // Rounded once: parts of the sum and of the product are none of the dtype.
  const auto f8 = [](const f& x) { return cast<f8_e4m3>(x).eval(); };
  const auto sum_and_product = [](const auto& x, const auto& y, const auto& i, const auto& u, const auto& v) {
    return std::pair(scatter_add(x, i, u), scatter_mul(y, i, v));
  };
  for (const char* backend : {"reference", "cpu"}) {
    const auto [sums, products] = compile(sum_and_product, {.backend = backend})(f8({1, 16, 3}), f8({1, 5, 3}), meet,
                                                                                 f8({1, 1, 1, 2}), f8({5, 5, 1, 2}));
    CHECK(sums.to_vector() == f8({1, 19, 5}).to_vector());
    CHECK(products.to_vector() == f8({1, 125, 6}).to_vector());
  }
  check_both(
      array{{3}, {0, 1, 1}}, 0, [](const auto& x, const auto& i, const auto& u) { return scatter_set(x, i, u); },
      tensor<bool, 1>{false, false, false}, meet, tensor<bool, 1>{false, false, true, true});
}

TEST_CASE("dynamic_slice and its update move starts so that the part lies in the tensor") {
  const auto a = ops::values(x345);
  for (const auto& s : {std::array<i64, 3>{1, 2, 3}, {-4, 9, 1}, {0, 0, 0}}) {
    const tensor<i64, 1> starts{s[0], s[1], s[2]};
    const auto at = [&](i64 d, i64 n, i64 size) { return std::clamp<i64>(s[std::size_t(d)], 0, n - size); };
    check_both(
        ops::make({2, 4, 3},
                  [&](const coord& p) {
                    return ops::get(a, {p[0] + at(0, 3, 2), p[1], p[2] + at(2, 5, 3)});
                  }),
        0,
        [](const auto& x, const auto& i) {
          return dynamic_slice(x, i, {2, 4, 3});
        },
        x345, starts);
    const auto update = ops::sample<float, 3>({2, 4, 3}, 9);
    const auto want = ops::make({3, 4, 5}, [&](const coord& p) {
      const coord q{p[0] - at(0, 3, 2), p[1], p[2] - at(2, 5, 3)};
      return q[0] >= 0 && q[0] < 2 && q[2] >= 0 && q[2] < 3 ? ops::get(ops::values(update), q) : ops::get(a, p);
    });
    check_both(
        want, 0, [](const auto& x, const auto& u, const auto& i) { return dynamic_update_slice(x, u, i); }, x345,
        update, starts);
  }
  CHECK(contains(error_of([&] { (void)dynamic_slice(x345, tensor<i64, 1>{0, 0, 0}, {4, 1, 1}); }), "[dynamic_slice]"));
  CHECK(contains(error_of([&] { (void)dynamic_slice(x345, tensor<i64, 1>{0, 0}, {1, 1, 1}); }), "[dynamic_slice]"));
  const auto braces = dynamic_slice(x345, {0, tensor<i64, 0>(1), 2}, {1, 1, 1});
  CHECK(braces.item() == x345(0, 1, 2));
}

TEST_CASE("compress takes what a mask says, bounded and filled, or as many as there are") {
  const tensor<bool, 1> mask{true, false, true, true};
  const auto a = ops::values(x345);
  const i64 chosen[] = {0, 2, 3};
  const auto want = [&](i64 n) {
    return ops::make({3, n, 5}, [&](const coord& p) {
      return p[1] < 3 ? ops::get(a, {p[0], chosen[p[1]], p[2]}) : -1.0;
    });
  };
  check_both(
      want(2), 0, [](const auto& x, const auto& m) { return compress(x, m, axis<1>, {.size = 2}); }, x345, mask);
  check_both(
      want(4), 0, [](const auto& x, const auto& m) { return compress(x, m, axis<1>, {.size = 4, .fill = -1}); }, x345,
      mask);
  const auto all = [](const tensor<float, 3>& x, const tensor<bool, 1>& m) { return compress(x, m, axis<1>) * 1.f; };
  CHECK(ops::values(tensor<float, 3>(all(x345, mask))).at == want(3).at);
  CHECK(ops::values(tensor<float, 3>(compile(all)(x345, mask))).at == want(3).at);
  CHECK(contains(error_of([&] { (void)compress(x345, mask); }), "[compress] the mask has 4 elements"));
}

TEST_CASE("what nothing else needs is written in place: a loop's carried value, a donated argument, a chain") {
  const i64 n = 1 << 12;
  const auto loop = [](const tensor<float, 1>& x) {
    return fori_loop(
        1, 20,
        [](tensor<i64, 0> i, tensor<float, 1> y) { return tensor<float, 1>(y.at(i).set(y[i - 1] * 0.5f + 1.f)); }, x);
  };
  auto f = compile(loop);
  const auto x = ones<float>(n);
  const auto y = f(x);
  CHECK(y.to_vector() == loop(x).to_vector());
  CHECK(x(1) == 1);
  CHECK(y(19) != 1);
  for (const auto& step : f.report().steps)
    if (contains(step.name, "loop: ")) CHECK_MESSAGE(step.read + step.written < 64, step.name);
  const auto twice = [](const tensor<float, 1>& t, const tensor<float, 0>& v) {
    return t.at(3).set(v).at(-1).add(t[3]);
  };
  auto g = compile(twice, {.donate = {0}});
  auto z = g(ones<float>(n), tensor<float, 0>(2.f));
  const float* const where = z.data();
  z = g(std::move(z), tensor<float, 0>(5.f));
  CHECK(z.data() == where);
  CHECK(z(3) == 5);
  CHECK(z(n - 1) == 4);  // 1 + 1, then + 2
  const auto kept = compile(twice)(z, tensor<float, 0>(7.f));
  CHECK(z(3) == 5);
  CHECK(kept(3) == 7);
  CHECK(kept(n - 1) == 9);
}

TEST_CASE("take with a number is the part there, along any axis") {
  const tensor<float, 2> a{{1, 2, 3}, {4, 5, 6}};
  const tensor<float, dims{2, 3}> fixed = reshape(a, 2, 3);
  const auto column = [](const auto& a) { return tensor<float, 1>(take(a, 1, axis<1>)); };
  for (const char* backend : {"reference", "cpu"}) {
    CHECK(compile(column, {.backend = backend})(a).to_vector() == std::vector<float>{2, 5});
    const auto slope =
        compile(grad([&](const tensor<float, 2>& a) { return tensor<float, 0>(sum(take(a, -1, axis<1>))); }),
                {.backend = backend});
    CHECK(slope(a).to_vector() == std::vector<float>{0, 0, 1, 0, 0, 1});
  }
  CHECK(column(a).to_vector() == std::vector<float>{2, 5});
  CHECK(take(a, -1).to_vector() == std::vector<float>{4, 5, 6});
  static_assert(decltype(take(fixed, 0, axis<-1>))::static_shape == dims{2});
  CHECK(take(take(a, 1), 2).item() == 6);
  CHECK(contains(error_of([&] { take(a, 3, axis<1>); }), "[take] index 3 is out of range for an axis of extent 3"));
}
