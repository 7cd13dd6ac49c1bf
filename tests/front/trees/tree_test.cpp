// Trees of every kind: what they hold, walked, mapped, reduced, listed; structures that differ are refused.
#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <boost/hana/adapt_struct.hpp>
#include <boost/hana/tuple.hpp>

#include <sinter/sinter.hpp>

#include "../../texts.hpp"

using namespace sinter;
using texts::error_of;

namespace trees {

enum class kind { small, large };
struct empty {};
struct layer {
  tensor<float, 2> w;
  tensor<float, 1> b;
};
struct config {
  int heads = 0;
  float eps = 0;
  bool causal = false;
  kind size = kind::small;
};
struct net {
  std::vector<layer> layers;
  std::optional<tensor<float, 1>> scale;
  std::array<tensor<float, 0>, 2> pair;
  std::tuple<tensor<std::int64_t, 1>, config> rest;
  empty nothing;
};
struct named {
  tensor<float, 1> gain;
  std::vector<tensor<float, 1>> parts;
};
/// Has constructors, so only its description makes it a tree.
class described {
 public:
  described() : hidden(7) {}
  tensor<float, 1> gain;
  int count = 3;
  int hidden;
};
struct wide {
  float a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, a1, b1, c1, d1, e1, f1;
};
struct arrays {
  std::array<int, 3> a;
  std::vector<int> b;
  std::optional<int> c;
  const int d;
};
struct derived : layer {
  int more;
};

}  // namespace trees

BOOST_HANA_ADAPT_STRUCT(trees::named, gain, parts);
BOOST_HANA_ADAPT_STRUCT(trees::described, gain, count);

using namespace trees;

namespace {

tensor<float, 1> vec(std::initializer_list<float> x) { return tensor<float, 1>(x); }

net make_net(int layers) {
  net n;
  for (int i = 0; i < layers; ++i) n.layers.push_back({tensor<float, 2>{{1.f, 2.f}}, vec({3.f + float(i)})});
  n.scale = vec({5.f});
  n.pair = {tensor<float, 0>(6.f), tensor<float, 0>(7.f)};
  n.rest = {tensor<std::int64_t, 1>{8, 9}, config{4, 0.5f, true, kind::large}};
  return n;
}

}  // namespace

TEST_CASE("fields are counted without looking into them") {
  static_assert(detail::field_count<empty> == 0);
  static_assert(detail::field_count<layer> == 2);
  static_assert(detail::field_count<net> == 5);
  static_assert(detail::field_count<arrays> == 4);
  static_assert(detail::field_count<wide> == 32);
  static_assert(detail::derived_aggregate<derived> && !detail::derived_aggregate<net>);
  static_assert(detail::adapted_struct<named> && !detail::adapted_struct<net>);
  static_assert(detail::field_names<named>()[1] == std::string_view("parts"));
}

TEST_CASE("a type tells its leaves") {
  constexpr auto fixed = detail::facts_of<std::pair<layer, std::array<config, 2>>>;
  static_assert(fixed.tensors == 2 && fixed.statics == 8 && fixed.fixed && !fixed.lazy);
  static_assert(!detail::facts_of<net>.fixed && detail::facts_of<net>.tensors > 0);
  static_assert(detail::facts_of<std::tuple<>>.tensors == 0);
  static_assert(detail::facts_of<wide>.statics == 32);
  const auto x = vec({1.f});
  static_assert(detail::facts_of<decltype(std::tuple{x + 1.f, x})>.lazy);
}

TEST_CASE("a walk meets every leaf in order, lengths before contents") {
  std::vector<std::string> seen;
  const net n = make_net(2);
  detail::for_each_leaf(
      n,
      [&]<class T>(const T& x) {
        if constexpr (tensor_like<T>) seen.push_back("t" + std::to_string(static_cast<int>(x.to_vector()[0])));
        else seen.push_back("s");
      },
      [&](std::uint64_t k) { seen.push_back("#" + std::to_string(k)); });
  const std::vector<std::string> expected{"#2", "t1", "t3", "t1", "t4", "#1", "t5",
                                          "t6", "t7", "t8", "s",  "s",  "s",  "s"};
  CHECK(seen == expected);

  int sum = 0;
  const std::vector<bool> flags(3, true);
  detail::for_each_leaf(flags, [&](const bool& b) { sum += b; });
  CHECK(sum == 3);
}

TEST_CASE("tree_map keeps structs and configuration") {
  const net doubled = tree_map([](const auto& x) { return x + x; }, make_net(2));
  CHECK(doubled.layers.size() == 2);
  CHECK(doubled.layers[1].b.to_vector() == std::vector<float>{8});
  CHECK(doubled.layers[0].w.to_vector() == std::vector<float>{2, 4});
  CHECK(doubled.scale->to_vector() == std::vector<float>{10});
  CHECK(doubled.pair[1].item() == 14);
  CHECK(std::get<0>(doubled.rest).to_vector() == std::vector<std::int64_t>{16, 18});
  CHECK(std::get<1>(doubled.rest).heads == 4);
  CHECK(std::get<1>(doubled.rest).size == kind::large);
}

TEST_CASE("tree_map leaves the trees that it reads as they are, references among them") {
  tensor<float, 1> a = vec({1.f, 2.f}), b = vec({3.f});
  const auto twice = tree_map([](const auto& x) { return x * 2.f; }, std::tie(a, b));
  CHECK(std::get<0>(twice)(1) == 4);
  CHECK(std::get<1>(twice)(0) == 6);
  const std::vector<tensor<float, 1>> both{a, b};
  const auto sum = tree_map([](const auto& x, const auto& y) { return x + y; }, both, both);
  CHECK(sum[1](0) == 6);
  CHECK(a(1) == 2);
  CHECK(both[1](0) == 3);
}

TEST_CASE("an error in what tree_map evaluates names the caller's line") {
  const std::array<tensor<float, 1>, 2> unassigned;
  std::string text;
  const int line = __LINE__ + 2;
  try {
    tree_map([](const auto& t) { return t * 2.f; }, unassigned);
  } catch (const user_error& e) {
    text = e.what();
  }
  CHECK_MESSAGE(text.find("tree_test.cpp:" + std::to_string(line)) != std::string::npos, text);
}

TEST_CASE("tree_map takes the result's type where the container allows") {
  const auto x = vec({1.f, 2.f}), y = vec({3.f});
  const auto count = [](const auto& t) -> std::int64_t { return t.numel(); };
  const auto sizes = tree_map(count, std::tuple{x, std::vector{y, x}, std::pair{y, 2}});
  using n = std::int64_t;
  static_assert(std::is_same_v<decltype(sizes), const std::tuple<n, std::vector<n>, std::pair<n, int>>>);
  CHECK(std::get<0>(sizes) == 2);
  CHECK(std::get<1>(sizes) == std::vector<std::int64_t>{1, 2});
  const auto lazy = tree_map([](const auto& t) { return t * 2.f; }, std::array{x, y});
  static_assert(std::is_same_v<decltype(lazy), const std::array<tensor<float, 1>, 2>>);
  CHECK(lazy[0].to_vector() == std::vector<float>{2, 4});
  const auto hana = tree_map([](const auto& t) { return t * 2.f; }, boost::hana::tuple<tensor<float, 1>, int>{x, 5});
  CHECK(hana[boost::hana::size_c<0>].to_vector() == std::vector<float>{2, 4});
  CHECK(hana[boost::hana::size_c<1>] == 5);
}

TEST_CASE("without tensors, numbers are the leaves") {
  const config c = tree_map([](auto x) { return x; }, config{2, 0.5f, true, kind::large});
  CHECK(c.heads == 2);
  CHECK(tree_map([](int x) { return x * 2; }, std::vector{1, 2, 3}) == std::vector{2, 4, 6});
  CHECK(tree_reduce([](int a, int b) { return a + b; }, std::tuple{1, std::array{2, 3}}, 10) == 16);
  CHECK(tree_leaves(std::pair{1, std::tuple{2}}) == std::array{1, 2});
}

TEST_CASE("several trees are mapped together") {
  const auto step = [](const auto& p, const auto& g) { return p - 0.5f * g; };
  const std::tuple<layer, int> p{{tensor<float, 2>{{1.f}}, vec({2.f})}, 3}, g{{tensor<float, 2>{{4.f}}, vec({6.f})}, 9};
  const auto q = tree_map(step, p, g);
  CHECK(std::get<0>(q).w.item() == -1);
  CHECK(std::get<0>(q).b.item() == -1);
  CHECK(std::get<1>(q) == 3);
  const auto five = tree_map([](const auto&... x) { return (x + ...); }, g, g, g, g, g);
  CHECK(std::get<0>(five).b.item() == 30);
  // A struct's fields may pair with a tuple's.
  CHECK(tree_map(step, std::get<0>(p), std::tuple{tensor<float, 2>{{4.f}}, vec({6.f})}).b.item() == -1);
}

TEST_CASE("adapted structs keep what is not described, and name their fields") {
  described d;
  d.gain = vec({1.f});
  d.hidden = 11;
  const described e = tree_map([](const auto& x) { return x + 1.f; }, d);
  CHECK(e.gain.item() == 2);
  CHECK(e.count == 3);
  CHECK(e.hidden == 11);

  const named one{vec({1.f}), {vec({1.f})}}, two{vec({1.f}), {vec({1.f}), vec({2.f})}};
  const auto first = [](const auto& a, const auto&) { return a; };
  const auto text = error_of([&] { tree_map(first, std::vector{two, one}, std::vector{two, two}); });
  CHECK(text.find("[tree_map] the trees differ at [1].parts: the first has a std::vector of length 1, another a "
                  "std::vector of length 2") == 0);
  CHECK(text.find("tree_test.cpp:") != std::string::npos);
}

TEST_CASE("optionals must be engaged alike") {
  const auto add = [](const auto& a, const auto& b) { return a + b; };
  std::optional<tensor<float, 1>> some = vec({1.f}), none;
  CHECK(tree_map(add, some, some)->item() == 2);
  CHECK(!tree_map(add, none, none));
  CHECK(error_of([&] { tree_map(add, some, none); }).find("std::optional") != std::string::npos);
  CHECK(error_of([&] { tree_map(add, none, some); }).find("std::optional") != std::string::npos);
}

TEST_CASE(
    "a tensor that does not fit the function, the field or the total is an error that names the line of the caller") {
  using wide = tensor<float, dims{dyn, 64}>;
  struct held {
    wide w;
  };
  const tensor<float, 2> x = ones<float>(3, 65);
  const wide fits = ones<float>(3, 64);
  const auto f = [](wide v) { return sum(v); };
  const auto given = [&](const auto&) { return x; };
  const auto add = [](wide total, const auto&) { return total; };
  const auto last = [](const auto&, const auto& leaf) { return leaf; };
  const auto names = [](int line, auto&& call) {
    const auto text = error_of(call);
    CHECK_MESSAGE(text.find("tree_test.cpp:" + std::to_string(line) + ")") != std::string::npos, text);
  };
  names(__LINE__, [&] { tree_map(f, x); });
  names(__LINE__, [&] { tree_map([](const auto&, wide v) { return sum(v); }, fits, x); });
  names(__LINE__, [&] { tree_map(given, held{fits}); });
  const auto takes_eight = [](auto, auto, auto, auto, auto, auto, auto, wide v) { return sum(v); };
  CHECK(tree_map(takes_eight, x, x, x, x, x, x, x, fits).item() == 3 * 64);
  names(__LINE__, [&] { tree_map(takes_eight, x, x, x, x, x, x, x, x); });
  names(__LINE__, [&] { tree_reduce(add, std::tuple{fits}, x); });
  names(__LINE__, [&] { tree_reduce(last, std::tuple{x}, fits); });
}

TEST_CASE("tree_reduce and tree_leaves") {
  const layer l{tensor<float, 2>{{1.f, 2.f}}, vec({3.f})};
  CHECK(tree_reduce([](std::int64_t n, const auto& x) { return n + x.numel(); }, l, std::int64_t{0}) == 3);
  const auto leaves = tree_leaves(l);
  static_assert(std::is_same_v<decltype(leaves), const std::tuple<tensor<float, 2>, tensor<float, 1>>>);
  CHECK(std::get<1>(leaves).item() == 3);
  const auto same = tree_leaves(std::tuple{vec({1.f}), 5, vec({2.f}) * 2.f});
  static_assert(std::is_same_v<decltype(same), const std::array<tensor<float, 1>, 2>>);
  CHECK(same[1].item() == 4);
  const auto many = tree_leaves(named{vec({1.f}), {vec({2.f}), vec({3.f})}});
  static_assert(std::is_same_v<decltype(many), const std::vector<tensor<float, 1>>>);
  CHECK(many.size() == 3);
  CHECK(std::tuple_size_v<decltype(tree_leaves(empty{}))> == 0);
}

TEST_CASE("a struct of 32 fields") {
  wide w{};
  w.f1 = 2;
  const wide v = tree_map([](float x) { return x + 1; }, w);
  CHECK(v.a == 1);
  CHECK(v.f1 == 3);
}
