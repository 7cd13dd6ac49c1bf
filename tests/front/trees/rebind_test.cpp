// Struct templates take the types of what tree_map and cast_tree give; other structs stay what they are.
#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../../close.hpp"

using namespace sinter;

namespace rebinding {

template <class T>
struct linear {
  tensor<T, 2> w;
  tensor<T, 1> b;
};
template <class T>
struct mlp {
  std::vector<linear<T>> layers;
  std::map<std::string, linear<T>> heads;
  std::optional<tensor<T, 1>> scale;
  T eps = 0;
  int width = 0;
  tensor<std::int64_t, 1> steps;
};
/// Of a whole tree, twice.
template <class P>
struct adam {
  P m, v;
  int t = 0;
};
template <class T, int N>
struct grid {
  tensor<T, N> values;
  std::vector<tensor<T, N>> more;
};
template <int N>
struct field {
  tensor<float, N> x;
};
/// A number that is no rank, and static extents.
template <class T, std::size_t Parts>
struct parted {
  std::array<tensor<T, 1>, Parts> parts;
};
template <class T, dims Shape>
struct shaped {
  tensor<T, Shape> x;
  tensor<T, 0> scale;
};
/// Two dtypes, of which one is fixed.
template <class T>
struct mixed {
  tensor<T, 1> half;
  tensor<double, 1> master;
};
struct plain {
  tensor<float, 1> w;
  int n = 2;
};
template <class T>
struct holder {
  std::variant<tensor<T, 1>, linear<T>> either;
  std::tuple<tensor<T, 1>, std::array<tensor<T, 0>, 2>> parts;
};

}  // namespace rebinding

using namespace rebinding;

namespace {

linear<float> some_linear(std::uint64_t key) {
  return {normal<float>(make_key(key), 3, 2), normal<float>(make_key(key + 1), 2)};
}
mlp<float> some_mlp() {
  return {{some_linear(1), some_linear(3)}, {{"a", some_linear(5)}}, normal<float>(make_key(9), 4), 0.25f, 7, {4, 5}};
}

}  // namespace

TEST_CASE("cast_tree gives the struct template of the dtype; integers and configuration stay") {
  const mlp<float> p = some_mlp();
  const auto q = cast_tree<bf16>(p);
  static_assert(std::is_same_v<decltype(q), const mlp<bf16>>);
  CHECK(static_cast<float>(q.eps) == 0.25f);
  CHECK(q.width == 7);
  CHECK(q.steps.to_vector() == std::vector<std::int64_t>{4, 5});
  CHECK(static_cast<float>(q.heads.at("a").w(2, 1)) == doctest::Approx(p.heads.at("a").w(2, 1)).epsilon(0.01));
  CHECK(static_cast<float>((*q.scale)(3)) == static_cast<float>(static_cast<bf16>((*p.scale)(3))));
  const auto back = cast_tree<float>(q);
  static_assert(std::is_same_v<decltype(back), const mlp<float>>);
  CHECK(back.layers[1].w(1, 1) == static_cast<float>(q.layers[1].w(1, 1)));
  static_assert(std::is_same_v<decltype(cast_tree<float>(p)), mlp<float>>);
  static_assert(std::is_same_v<decltype(cast_tree<double>(adam<mlp<float>>{p, p})), adam<mlp<double>>>);
  CHECK(cast_tree<double>(adam<mlp<float>>{p, p, 3}).t == 3);
  const auto list = cast_tree<f16>(std::tuple{some_linear(1), 3});
  static_assert(std::is_same_v<decltype(list), const std::tuple<linear<f16>, int>>);
}

TEST_CASE("a struct that fits stays what it is") {
  static_assert(std::is_same_v<decltype(cast_tree<float>(plain{})), plain>);
  const plain p{normal<float>(make_key(1), 3)};
  CHECK(cast_tree<float>(p).w.to_vector() == p.w.to_vector());
  const mixed<float> m{normal<float>(make_key(1), 3), normal<double>(make_key(2), 3)};
  const auto first = [](const auto& x) {
    if constexpr (std::is_same_v<typename std::remove_cvref_t<decltype(x)>::value_type, float>) return cast<bf16>(x);
    else return x;
  };
  static_assert(std::is_same_v<decltype(tree_map(first, m)), mixed<bf16>>);
}

TEST_CASE("variants, tuples and arrays within a template") {
  const holder<float> h{some_linear(1), {normal<float>(make_key(1), 2), {}}};
  static_assert(std::is_same_v<decltype(cast_tree<bf16>(h)), holder<bf16>>);
}

TEST_CASE("ranks move where the rank is the template's argument") {
  const grid<float, 2> g{normal<float>(make_key(1), 3, 4), {normal<float>(make_key(2), 2, 5)}};
  const auto rows = tree_map([](const auto& x) { return sum(x, axis<1>); }, g);
  static_assert(std::is_same_v<decltype(rows), const grid<float, 1>>);
  check_close(rows.more[0].to_vector(), tensor<float, 1>(sum(g.more[0], axis<1>)).to_vector(), 1e-6);
  const auto both = tree_map([](const auto& x) { return cast<double>(reshape(x, {1, x.size(0), x.size(1)})); }, g);
  static_assert(std::is_same_v<decltype(both), const grid<double, 3>>);
  static_assert(
      std::is_same_v<decltype(tree_map([](const auto& x) { return sum(x, axis<0>); }, field<3>{})), field<2>>);
}

TEST_CASE("other constants of a template stay") {
  const parted<float, 2> p{{normal<float>(make_key(1), 3), normal<float>(make_key(2), 2)}};
  const auto q = cast_tree<double>(p);
  static_assert(std::is_same_v<decltype(q), const parted<double, 2>>);
  CHECK(q.parts[1](1) == static_cast<double>(p.parts[1](1)));
  const shaped<float, dims{dyn, 4}> s{normal<float>(make_key(1), 3, 4), tensor<float, 0>(2.f)};
  static_assert(std::is_same_v<decltype(cast_tree<f16>(s)), shaped<f16, dims{dyn, 4}>>);
  CHECK(static_cast<float>(cast_tree<f16>(s).x(2, 3)) == doctest::Approx(s.x(2, 3)).epsilon(0.01));
}

TEST_CASE("within compile(), under grad, on every backend") {
  const mlp<float> p = some_mlp();
  const auto loss = [](const mlp<float>& p) {
    const mlp<bf16> q = cast_tree<bf16>(p);
    return sum(cast<float>(q.layers[0].w * q.layers[1].w)) + sum(cast<float>(q.heads.at("a").b));
  };
  const auto want = grad(loss)(p);
  for (const char* backend : {"cpu", "reference"}) {
    const auto f = compile(grad(loss), {.fullgraph = true, .backend = backend});
    const mlp<float> got = f(p);
    check_close(got.layers[0].w.to_vector(), want.layers[0].w.to_vector(), 1e-6);
    check_close(got.layers[0].w.to_vector(), cast_tree<float>(cast_tree<bf16>(p)).layers[1].w.to_vector(), 1e-6);
    CHECK(got.heads.at("a").b.to_vector() == std::vector<float>{1, 1});
    const auto g = compile([](const mlp<float>& p) { return cast_tree<bf16>(p); }, {.backend = backend});
    const mlp<bf16> q = g(p);
    CHECK(q.layers[1].b.to_vector() == cast_tree<bf16>(p).layers[1].b.to_vector());
  }
}
