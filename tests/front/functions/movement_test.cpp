// Movement functions against coordinate arithmetic, on contiguous tensors and on views, eagerly and traced.
#include <limits>

#include <sinter/front/functions/join.hpp>
#include <sinter/front/functions/pointwise.hpp>

#include "../ops_support.hpp"

using namespace sinter;
using ops::array;
using ops::check_both;
using ops::coord;

namespace {

const auto x234 = ops::sample<float, 3>({2, 3, 4});

array reshaped(array a, coord extents) {
  a.extents = std::move(extents);
  return a;
}

array permuted(const array& a, const std::vector<std::size_t>& perm) {
  coord extents;
  for (auto p : perm) extents.push_back(a.extents[p]);
  return ops::make(extents, [&](const coord& c) {
    coord from(c.size());
    for (std::size_t i = 0; i < c.size(); ++i) from[perm[i]] = c[i];
    return ops::get(a, from);
  });
}

}  // namespace

TEST_CASE("reshape keeps row-major order, for views too, and shares storage where strides allow") {
  const auto a = ops::values(x234);
  check_both(
      reshaped(a, {6, 4}), 0, [](const auto& x) { return reshape(x, 6, -1); }, x234);
  check_both(
      reshaped(a, {4, 1, 6}), 0,
      [](const auto& x) {
        return reshape(x, {4, 1, 6});
      },
      x234);
  check_both(
      reshaped(a, {24}), 0, [](const auto& x) { return flatten(x); }, x234);
  check_both(
      reshaped(permuted(a, {2, 0, 1}), {8, 3}), 0, [](const auto& x) { return reshape(permute<2, 0, 1>(x), 8, 3); },
      x234);
  check_both(
      reshaped(permuted(a, {1, 0, 2}), {6, 4}), 0, [](const auto& x) { return reshape(permute<1, 0, 2>(x), 6, 4); },
      x234);
  CHECK(reshape(x234, 3, 8).data() == x234.data());
  // The last axis of this view splits without a copy; joining its first two axes needs one.
  const auto view = permute<1, 0, 2>(x234);
  CHECK(reshape(view, 3, 2, 2, 2).data() == x234.data());
  CHECK(reshape(view, 6, 4).data() != x234.data());
  static_assert(decltype(reshape<dims{dyn, 2}>(tensor<float, dims{3, 4}>()))::static_shape == dims{6, 2});
  const tensor<float, 0> one = reshape<dims{}>(ops::sample<float, 1>({1}));
  CHECK(one.item() == ops::sample<float, 1>({1}).item());
}

TEST_CASE("reshape of empty tensors, and of extents that do not fit") {
  const auto empty = ops::sample<float, 2>({0, 3});
  CHECK(reshape(empty, 3, 0).shape() == index_array<2>{3, 0});
  CHECK(reshape(empty, {-1, 5}).shape() == index_array<2>{0, 5});
  CHECK(ops::contains(ops::error_of([] { (void)reshape(x234, 5, 5); }), "[reshape] the number of elements differs"));
  CHECK(ops::contains(ops::error_of([] { (void)reshape(x234, -1, 5); }), "[reshape]"));
  CHECK(ops::contains(ops::error_of([] { (void)reshape(x234, -1, -1); }), "more than one"));
  CHECK(ops::contains(ops::error_of([] { (void)reshape(x234, 24, -7); }), "negative"));
  CHECK(ops::contains(ops::error_of([] { (void)reshape(x234, 5, 5); }), "movement_test.cpp:"));
}

TEST_CASE("views of more elements than a number can count are refused") {
  const std::int64_t big = std::int64_t{1} << 32;
  const tensor<float, 1> one{1}, none = ops::sample<float, 1>({0});
  CHECK(
      ops::contains(ops::error_of([&] { (void)reshape(none, big, big); }), "[reshape] the result would have too many"));
  CHECK(ops::contains(ops::error_of([&] { (void)broadcast_to(one, big, big); }),
                      "[broadcast_to] the result would have too many"));
  CHECK(broadcast_to(one, big, big / 4).numel() == big * (big / 4));
  CHECK(ops::contains(ops::error_of([&] { (void)tile(one, {big, big}); }), "[tile] (4294967296, 1) repeated"));
  CHECK(ops::contains(ops::error_of([&] { (void)pad(one, {{big * (big / 4), 0}}); }), "[pad] the width"));
  const auto half = broadcast_to(one, big * (big / 4));
  CHECK(ops::contains(ops::error_of([&] { (void)concat(half, half); }), "[concat] the result would have too many"));
}

TEST_CASE("permute and transpose are views") {
  const auto a = ops::values(x234);
  check_both(
      permuted(a, {2, 0, 1}), 0, [](const auto& x) { return permute(x, axis<2, 0, 1>); }, x234);
  check_both(
      permuted(a, {0, 2, 1}), 0, [](const auto& x) { return transpose(x); }, x234);
  check_both(
      permuted(a, {2, 1, 0}), 0, [](const auto& x) { return transpose<0, -1>(x); }, x234);
  CHECK(transpose(x234).data() == x234.data());
  static_assert(decltype(transpose(tensor<float, dims{3, dyn, 5}>()))::static_shape == dims{3, 5, dyn});
}

TEST_CASE("broadcast_to repeats extents of 1 and adds leading axes") {
  const auto x = ops::sample<double, 2>({3, 1});
  const auto want = ops::make({2, 3, 4}, [&](const coord& c) { return ops::get(ops::values(x), {c[1], 0}); });
  check_both(
      want, 0, [](const auto& t) { return broadcast_to(t, 2, 3, 4); }, x);
  check_both(
      want, 0,
      [](const auto& t) {
        return broadcast_to(t, {2, -1, 4});
      },
      x);
  check_both(
      want, 0,
      [](const auto& t) {
        return broadcast_to<dims{2, dyn, 4}>(t);
      },
      x);
  CHECK(broadcast_to(x, 2, 3, 4).data() == x.data());
  CHECK(ops::contains(ops::error_of([&] { (void)broadcast_to(x, 2, 4); }), "[broadcast_to]"));
  CHECK(broadcast_to(x, 3, 0).numel() == 0);
  // An extent that is kept may be 1.
  check_both(
      ops::make({3, 2},
                [&](const coord& c) {
                  return ops::get(ops::values(x), {c[0], 0});
                }),
      0,
      [](const auto& t) {
        return broadcast_to(broadcast_to(t, {-1, -1}), {-1, 2});
      },
      x);
  CHECK(broadcast_to<dims{dyn, 3, 4}>(tensor<float, 3>{{{1, 2, 3, 4}}}).shape() == std::array<dim, 3>{1, 3, 4});
  static_assert(decltype(broadcast_to<dims{dyn, 4}>(tensor<float, dims{1, 4}>()))::static_shape == dims{1, 4});
}

TEST_CASE("expand_dims and squeeze") {
  const auto a = ops::values(x234);
  check_both(
      reshaped(a, {2, 1, 3, 4}), 0, [](const auto& x) { return expand_dims<1>(x); }, x234);
  check_both(
      reshaped(a, {2, 3, 4, 1}), 0, [](const auto& x) { return expand_dims(x, axis<-1>); }, x234);
  check_both(
      a, 0, [](const auto& x) { return squeeze<0, -1>(reshape(x, 1, 2, 3, 4, 1)); }, x234);
  CHECK(
      ops::contains(ops::error_of([] { (void)squeeze<1>(x234); }), "[squeeze] an axis to squeeze is not of extent 1"));
}

TEST_CASE("slice follows Python's start, stop and step") {
  const auto x = ops::sample<std::int32_t, 2>({2, 7});
  const auto a = ops::values(x);
  const auto python = [&](std::int64_t first, std::int64_t count, std::int64_t step) {
    return ops::make({2, count}, [&](const coord& c) { return ops::get(a, {c[0], first + c[1] * step}); });
  };
  check_both(
      python(2, 3, 1), 0, [](const auto& t) { return slice<1>(t, 2, 5); }, x);
  check_both(
      python(1, 3, 2), 0, [](const auto& t) { return slice<1>(t, 1, 6, 2); }, x);
  check_both(
      python(4, 3, 1), 0, [](const auto& t) { return slice<-1>(t, -3); }, x);
  check_both(
      python(6, 7, -1), 0, [](const auto& t) { return slice<1>(t, -1, to_end, -1); }, x);
  check_both(
      python(5, 2, -3), 0, [](const auto& t) { return slice<1>(t, 5, 0, -3); }, x);
  check_both(
      python(0, 7, 1), 0, [](const auto& t) { return slice<1>(t, -100, 100); }, x);
  check_both(
      python(0, 0, 1), 0, [](const auto& t) { return slice<1>(t, 5, 2); }, x);
  // The extreme numbers are as far as any.
  check_both(
      python(4, 5, -1), 0, [](const auto& t) { return slice<1>(t, 4, std::numeric_limits<std::int64_t>::min(), -1); },
      x);
  check_both(
      python(0, 7, 1), 0,
      [](const auto& t) { return slice<1>(t, std::numeric_limits<std::int64_t>::min(), ~std::size_t{0}); }, x);
  check_both(
      python(0, 0, 1), 0, [](const auto& t) { return slice<1>(t, 9); }, x);
  check_both(
      python(3, 1, 1), 0, [](const auto& t) { return slice<1>(t, 3, 7, std::int64_t{1} << 62); }, x);
  check_both(
      python(6, 1, 1), 0,
      [](const auto& t) { return slice<1>(t, 6, to_end, std::numeric_limits<std::int64_t>::min()); }, x);
  CHECK(slice<1>(x, 2, 5).data() == x.data() + 2);
  CHECK(ops::contains(ops::error_of([&] { (void)slice<0>(x, 0, 1, 0); }), "[slice] the step is 0"));
}

TEST_CASE("flip, of some axes and of all") {
  const auto a = ops::values(x234);
  check_both(
      ops::make({2, 3, 4},
                [&](const coord& c) {
                  return ops::get(a, {1 - c[0], c[1], 3 - c[2]});
                }),
      0, [](const auto& x) { return flip<0, -1>(x); }, x234);
  check_both(
      ops::make({2, 3, 4},
                [&](const coord& c) {
                  return ops::get(a, {1 - c[0], 2 - c[1], 3 - c[2]});
                }),
      0, [](const auto& x) { return flip(x); }, x234);
  CHECK(flip(ops::sample<float, 2>({0, 3})).numel() == 0);
}

TEST_CASE("concat and stack") {
  const auto x = ops::sample<float, 2>({2, 3}, 1), y = ops::sample<float, 2>({2, 4}, 2),
             none = ops::sample<float, 2>({2, 0}, 3);
  const auto a = ops::values(x), b = ops::values(y);
  const auto along = ops::make({2, 7}, [&](const coord& c) {
    return c[1] < 3 ? ops::get(a, c) : ops::get(b, {c[0], c[1] - 3});
  });
  check_both(
      along, 0, [](const auto& p, const auto& q, const auto& r) { return concat<1>(p, q, r); }, x, y, none);
  check_both(
      along, 0, [](const auto& p, const auto& q, const auto& r) { return concat(p, q, r, axis<1>); }, x, y, none);
  const auto eight = ops::make({2, 24}, [&](const coord& c) {
    return ops::get(a, {c[0], c[1] % 3}) * (c[1] < 21 ? 1 : -1);
  });
  check_both(
      eight, 0, [](const auto& p) { return concat<1>(p, p, p, p, p, p, p, -p); }, x);
  check_both(
      eight, 0, [](const auto& p) { return concat(p, p, p, p, p, p, p, -p, axis<1>); }, x);
  check_both(
      along, 0, [](const auto& p, const auto& q) { return flip<1>(concat<-1>(flip<1>(q), flip<1>(p))); }, x, y);
  const auto stacked = ops::make({2, 2, 3}, [&](const coord& c) {
    return ops::get(a, {c[0], c[2]}) * (c[1] == 0 ? 1 : -1);
  });
  check_both(
      stacked, 0, [](const auto& p) { return stack<1>(p, -p); }, x);
  check_both(
      stacked, 0, [](const auto& p) { return stack(p, -p, axis<1>); }, x);
  check_both(
      stacked, 0,
      [](const auto& p) {
        return stack(std::vector{tensor<float, 2>(p), tensor<float, 2>(-p)}, axis<1>);
      },
      x);
  check_both(
      stacked, 0,
      [](const auto& p) {
        return stack<1>(std::vector{tensor<float, 2>(p), tensor<float, 2>(-p)});
      },
      x);
  CHECK(ops::contains(ops::error_of([&] { (void)concat<0>(x, y); }), "(2, 3), (2, 4)"));
  CHECK(ops::contains(ops::error_of([&] { (void)concat<0>(std::vector<tensor<float, 2>>{}); }),
                      "[concat] there is nothing"));
  const tensor<float, dims{2, 3}> fixed = x;
  const auto five = stack(fixed, fixed, fixed, fixed, -fixed, axis<2>);
  static_assert(decltype(five)::static_shape == dims{2, 3, 5});
  CHECK(five(1, 2, 4) == -x(1, 2));
  const std::string differ = "[stack] the extents differ: a is (2, 3), b is (2, 4)";
  CHECK(ops::contains(ops::error_of([&] { (void)stack(x, x, y); }), differ));
  CHECK(ops::contains(ops::error_of([&] { (void)stack(std::vector<tensor<float, 2>>{x, y}); }), differ));
  static_assert(decltype(concat<0>(tensor<int, dims{2, 3}>(), tensor<int, dims{4, dyn}>()))::static_shape ==
                dims{6, 3});
}

TEST_CASE("split") {
  const auto a = ops::values(x234);
  const auto part = [&](std::int64_t i) {
    return ops::make({2, 3, 2}, [&](const coord& c) { return ops::get(a, {c[0], c[1], c[2] + 2 * i}); });
  };
  for (int i = 0; i < 2; ++i)
    check_both(
        part(i), 0, [i](const auto& x) { return split<2>(x, 2)[static_cast<std::size_t>(i)]; }, x234);
  const auto [left, right] = split<-1, 2>(tensor<float, dims{2, 3, 4}>(x234));
  static_assert(std::remove_cvref_t<decltype(left)>::static_shape == dims{2, 3, 2});
  ops::check_equal(ops::values(right), part(1));
  CHECK(split(x234, 3, axis<1>).size() == 3);
  CHECK(split(x234, 3, axis<1>)[2].to_vector() == split<1>(x234, 3)[2].to_vector());
  CHECK(ops::contains(ops::error_of([] { (void)split<1>(x234, 2); }), "does not divide into 2"));
  CHECK(ops::contains(ops::error_of([] { (void)split<1>(x234, 0); }), "[split]"));
}

TEST_CASE("slice, pad and tile with numbers known to the compiler keep static extents") {
  const tensor<float, dims{2, 3, 4}> x = x234;
  const auto same = [](auto known, const auto& asked) {
    CHECK(known.shape() == asked.shape());
    CHECK(known.to_vector() == asked.to_vector());
    return decltype(known)::static_shape;
  };
  CHECK(same(slice<2, 1, 3>(x), slice<2>(x, 1, 3)) == dims{2, 3, 2});
  CHECK(same(slice<1, 1>(x), slice<1>(x, 1)) == dims{2, 2, 4});
  CHECK(same(slice<-1, -1, to_end, -2>(x), slice<-1>(x, -1, to_end, -2)) == dims{2, 3, 2});
  CHECK(same(slice<1, -9, 9>(x), slice<1>(x, -9, 9)) == dims{2, 3, 4});
  CHECK(same(slice<0, 2, 1>(x), slice<0>(x, 2, 1)) == dims{0, 3, 4});
  CHECK(same(slice<0, 0, 1>(x234), slice<0>(x234, 0, 1)) == dims{dyn, dyn, dyn});
  CHECK(same(pad<dims{1, 0, 0}, dims{0, 2, 0}>(x, 7.f), pad(x, {{1, 0}, {0, 2}, {0, 0}}, 7.f)) == dims{3, 5, 4});
  CHECK(same(tile<dims{2, 1}>(x), tile(x, {2, 1})) == dims{2, 6, 4});
  CHECK(same(tile<dims{2, 1, 1, 3}>(x), tile(x, {2, 1, 1, 3})) == dims{2, 2, 3, 12});
  const tensor<float, dims{dyn, 3}> open = ops::sample<float, 2>({5, 3});
  CHECK(same(pad<dims{0, 1}, dims{0, 1}>(slice<1, 0, 2>(open)), pad(slice<1>(open, 0, 2), {{0, 0}, {1, 1}})) ==
        dims{dyn, 4});
}

TEST_CASE("pad and tile") {
  const auto x = ops::sample<std::int16_t, 2>({2, 3});
  const auto a = ops::values(x);
  const auto padded = ops::make({4, 5}, [&](const coord& c) {
    const bool inside = c[0] >= 1 && c[0] < 3 && c[1] < 3;
    return inside ? ops::get(a, {c[0] - 1, c[1]}) : 7.0;
  });
  check_both(
      padded, 0,
      [](const auto& t) {
        return pad(t, {{1, 1}, {0, 2}}, 7);
      },
      x);
  CHECK(ops::contains(ops::error_of([&] { (void)pad(x, {{0, -1}, {0, 0}}); }), "[pad] a width is negative"));
  const tensor<std::uint8_t, 1> bytes{1, 2};
  CHECK(pad(bytes, {{1, 0}}, 255)(0) == 255);
  const auto message = ops::error_of([&] { (void)pad(bytes, {{1, 1}}, 300); });
  CHECK_MESSAGE(ops::contains(message, "[pad] the number 300 does not fit u8"), message);
  CHECK_MESSAGE(ops::contains(message, "movement_test.cpp:"), message);
  const auto tiled = ops::make({2, 4, 3}, [&](const coord& c) { return ops::get(a, {c[1] % 2, c[2] % 3}); });
  check_both(
      tiled, 0,
      [](const auto& t) {
        return tile(t, {2, 2, 1});
      },
      x);
  check_both(
      ops::make({2, 9},
                [&](const coord& c) {
                  return ops::get(a, {c[0], c[1] % 3});
                }),
      0, [](const auto& t) { return tile(transpose(transpose(t)), {3}); }, x);
  CHECK(tile(x, {0, 2}).shape() == index_array<2>{0, 6});
}

TEST_CASE("tril and triu of the last two axes") {
  const auto a = ops::values(x234);
  for (const std::int64_t k : {-2, 0, 1, 9}) {
    check_both(
        ops::make({2, 3, 4}, [&](const coord& c) { return c[2] - c[1] <= k ? ops::get(a, c) : 0; }), 0,
        [k](const auto& x) { return tril(x, k); }, x234);
    check_both(
        ops::make({2, 3, 4}, [&](const coord& c) { return c[2] - c[1] >= k ? ops::get(a, c) : 0; }), 0,
        [k](const auto& x) { return triu(x, k); }, x234);
  }
}

TEST_CASE("every element size moves") {
  const auto walk = [](const auto& x) {
    const auto a = ops::values(x);
    check_both(
        ops::make({3, 4},
                  [&](const coord& c) {
                    return c[1] < 2 ? ops::get(a, {c[1], 2 - c[0]}) : ops::get(a, {c[1] - 2, c[0]});
                  }),
        0, [](const auto& t) { return concat<1>(transpose(flip<1>(t)), transpose(t)); }, x);
  };
  walk(ops::sample<bool, 2>({2, 3}));
  walk(ops::sample<std::uint8_t, 2>({2, 3}));
  walk(ops::sample<f16, 2>({2, 3}));
  walk(ops::sample<std::uint32_t, 2>({2, 3}));
  walk(ops::sample<double, 2>({2, 3}));
  walk(ops::sample<std::uint64_t, 2>({2, 3}));
}
