// stacked, stack_tree, unstack: fields of stacks, items, conversions, as arguments and results of compiled functions, what is refused.
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
#include <boost/hana/adapt_struct.hpp>

#include <sinter/sinter.hpp>

#include "../../close.hpp"
#include "../../texts.hpp"

using namespace sinter;
using texts::contains;
using texts::error_of;

namespace stacks_of {

using real = tensor<double, 0>;
using vec = tensor<double, 1>;
using matrix = tensor<double, 2>;
using cube = tensor<double, 3>;

struct linear {
  matrix w;
  vec b;
};
struct net {
  linear one, two;
  std::vector<vec> more;
  std::optional<real> scale;
  int depth = 2;
  vec b;
};
class described {
 public:
  described() = default;
  described(vec x, vec y) : x(std::move(x)), y(std::move(y)) {}
  vec x, y;
  int hidden = 0;
};
class hooked {
 public:
  hooked() = default;
  explicit hooked(vec of) : x(std::move(of)) {}
  static auto sinter_fields(auto& self) { return std::tie(self.x, self.by_name); }
  vec x;
  std::map<std::string, matrix> by_name;
};
template <class T>
struct cells {
  tensor<T, 1> x;
};
struct fixed {
  tensor<double, dims{2, 3}> w;
  tensor<std::int64_t, dims{3}> n;
};

template <int N>
struct ranked {
  tensor<double, N + 1> w;
  tensor<std::int64_t, N> n;
  int power = 1;
};
template <class T, int N>
struct typed {
  ranked<N> inner;
  std::vector<tensor<T, N>> list;
};
template <int N>
struct uneven {
  tensor<double, N> moves;
  tensor<double, 1> stays;
};

}  // namespace stacks_of

BOOST_HANA_ADAPT_STRUCT(stacks_of::described, x, y);

using namespace stacks_of;

namespace {

template <class... I>
auto numbers(int seed, I... extents) {
  return normal<double>(make_key(seed), extents...);
}

linear make_linear(int seed) { return {numbers(seed, 2, 3), numbers(seed + 100, 3)}; }
net make_net(int seed) {
  return {make_linear(seed),
          make_linear(seed + 10),
          {vec(numbers(seed + 20, 2)), vec(numbers(seed + 30, 4))},
          real(numbers(seed + 40)),
          3,
          numbers(seed + 50, 2)};
}
std::vector<net> nets(int n) {
  std::vector<net> all;
  for (int i = 0; i < n; ++i) all.push_back(make_net(i));
  return all;
}

template <class A, class B>
void check_equal(const A& a, const B& b) {
  CHECK(a.shape() == b.shape());
  CHECK(a.to_vector() == b.to_vector());
}
void check_nets(const net& a, const net& b) {
  check_equal(a.one.w, b.one.w);
  check_equal(a.one.b, b.one.b);
  check_equal(a.two.w, b.two.w);
  check_equal(a.two.b, b.two.b);
  REQUIRE(a.more.size() == b.more.size());
  for (std::size_t i = 0; i < a.more.size(); ++i) check_equal(a.more[i], b.more[i]);
  REQUIRE(a.scale.has_value() == b.scale.has_value());
  if (a.scale) check_equal(*a.scale, *b.scale);
  CHECK(a.depth == b.depth);
  check_equal(a.b, b.b);
}

}  // namespace

TEST_CASE("stack_tree: fields of a stack have one axis more, nest, and tell fields of one type apart") {
  const std::vector<net> all = nets(4);
  stacked<net> s = stack_tree(all);
  CHECK(s.size() == 4);
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(s[&net::one])>, stacked<linear>>);
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(s[&net::one][&linear::w])>, cube>);
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(s[&net::more])>, std::vector<matrix>>);
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(s[&net::scale])>, std::optional<vec>>);
  CHECK(s[&net::depth] == 3);
  check_equal(s[&net::two][&linear::b],
              stack<0>(std::vector<vec>{all[0].two.b, all[1].two.b, all[2].two.b, all[3].two.b}));
  check_equal(s[&net::b], stack<0>(std::vector<vec>{all[0].b, all[1].b, all[2].b, all[3].b}));
  for (int i = 0; i < 4; ++i) check_nets(s[i], all[static_cast<std::size_t>(i)]);
  check_nets(s[-1], all[3]);
  const auto back = unstack(s);
  REQUIRE(back.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) check_nets(back[i], all[i]);
  // Fields are assigned to; items are views.
  s[&net::two][&linear::w] = cube(s[&net::two][&linear::w] * 2.0);
  check_equal(s[1].two.w, matrix(all[1].two.w * 2.0));
  const stacked<net> copy = s;
  check_equal(copy[&net::two][&linear::w], s[&net::two][&linear::w]);
}

TEST_CASE("stack_tree of tensors, tuples, arrays and variants; unstack undoes it") {
  using tree = std::tuple<real, std::array<vec, 2>, std::variant<vec, matrix>, std::string>;
  std::vector<tree> all;
  for (int i = 0; i < 3; ++i)
    all.push_back(
        {numbers(i), {vec(numbers(i + 5, 2)), vec(numbers(i + 9, 3))}, matrix(numbers(i + 20, 2, 2)), "name"});
  const auto s = stack_tree(all);
  static_assert(std::is_same_v<std::remove_const_t<decltype(s)>,
                               std::tuple<vec, std::array<matrix, 2>, std::variant<matrix, cube>, std::string>>);
  CHECK(std::get<3>(s) == "name");
  const auto back = unstack(s);
  REQUIRE(back.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    check_equal(std::get<0>(back[i]), std::get<0>(all[i]));
    check_equal(std::get<1>(back[i])[1], std::get<1>(all[i])[1]);
    check_equal(std::get<1>(std::get<2>(back[i])), std::get<1>(std::get<2>(all[i])));
  }
  const matrix m = numbers(1, 3, 2);
  check_equal(stack_tree(unstack(m)), m);
  CHECK(unstack(matrix(numbers(1, 0, 2))).empty());
}

TEST_CASE("stacks of stacks, of adapted structs, and of static shapes") {
  std::vector<stacked<linear>> rows;
  for (int r = 0; r < 2; ++r)
    rows.push_back(stack_tree(std::vector<linear>{make_linear(r), make_linear(r + 5), make_linear(r + 9)}));
  const stacked<stacked<linear>> s = stack_tree(rows);
  CHECK(s[&linear::w].shape() == index_array<4>{2, 3, 2, 3});
  check_equal(s[1][2].b, make_linear(10).b);
  check_equal(s[1][&linear::b], rows[1][&linear::b]);
  const auto d = stack_tree(std::vector<described>{{vec{1, 2}, vec{3}}, {vec{4, 5}, vec{6}}});
  CHECK(d[&described::y].to_vector() == std::vector<double>{3, 6});
  CHECK(d[1].x.to_vector() == std::vector<double>{4, 5});
  CHECK(contains(error_of([&] { static_cast<void>(d[&described::hidden]); }), "BOOST_HANA_ADAPT_STRUCT"));
  const auto f =
      stack_tree(std::vector<fixed>{{zeros<double, dims{2, 3}>(), {1, 2, 3}}, {ones<double, dims{2, 3}>(), {4, 5, 6}}});
  static_assert(std::remove_cvref_t<decltype(f[&fixed::w])>::static_shape == dims{dyn, 2, 3});
  CHECK(f[1].n.to_vector() == std::vector<std::int64_t>{4, 5, 6});
}

TEST_CASE("a stack converts to the struct of the next rank, where every leaf moves") {
  std::vector<typed<float, 1>> all;
  for (int i = 0; i < 3; ++i)
    all.push_back({{matrix(numbers(i, 2, 3)), tensor<std::int64_t, 1>{i, 2}, 4}, {cast<float>(numbers(i, 5))}});
  const stacked<typed<float, 1>> s = stack_tree(all);
  const typed<float, 2> whole = s;
  check_equal(whole.inner.w, s[&typed<float, 1>::inner][&ranked<1>::w]);
  check_equal(whole.list[0], s[&typed<float, 1>::list][0]);
  CHECK(whole.inner.power == 4);
  const auto take = [](const ranked<2>& r) { return r.w.size(0); };
  CHECK(take(s[&typed<float, 1>::inner]) == 3);
  static_assert(!std::is_convertible_v<stacked<uneven<1>>, uneven<2>>);
  static_assert(!std::is_convertible_v<stacked<typed<float, 1>>, typed<float, 3>>);
  static_assert(!std::is_convertible_v<stacked<typed<float, 1>>, typed<double, 2>>);
  static_assert(!std::is_convertible_v<stacked<linear>, linear>);
}

TEST_CASE("stacks are trees: compiled, differentiated, mapped, with the fields' names") {
  const stacked<net> s = stack_tree(nets(4));
  const auto f = [](const stacked<net>& s, const vec& x) {
    stacked<net> out = s;
    out[&net::one][&linear::w] = cube(out[&net::one][&linear::w] * 2.0);
    return std::tuple{out, s[1], sum(s[&net::two][&linear::b] * x)};
  };
  const vec x{1, 2, 3};
  for (const char* backend : {"cpu", "reference"}) {
    const auto [out, item, total] = compile(f, {.backend = backend})(s, x);
    check_equal(out[&net::one][&linear::w], cube(s[&net::one][&linear::w] * 2.0));
    check_nets(item, make_net(1));
    CHECK(total.item() == doctest::Approx(real(sum(s[&net::two][&linear::b] * x)).item()));
  }
  const auto loss = [](const stacked<net>& s) {
    return sum(s[2].one.w * s[2].one.w) + sum(exp(s[&net::b])) + sum(*s[&net::scale]);
  };
  for (const stacked<net>& g : {grad(loss)(s), compile(grad(loss))(s)}) {
    check_equal(g[2].one.w, matrix(s[2].one.w * 2.0));
    CHECK(g[1].one.w.to_vector() == std::vector<double>(6, 0.0));
    check_close(g[&net::b].to_vector(), matrix(exp(s[&net::b])).to_vector(), 1e-12);
    CHECK(g[&net::scale]->to_vector() == std::vector<double>(4, 1.0));
  }
  const stacked<net> half = tree_map([](const auto& t) { return t * 0.5; }, s);
  check_equal(half[3].two.w, matrix(make_net(3).two.w * 0.5));
  CHECK(tree_paths(s) == tree_paths(make_net(0)));
  const stacked<cells<float>> cast = cast_tree<float>(stack_tree(std::vector<cells<double>>{{vec{1, 2}}, {vec{3, 4}}}));
  CHECK(cast[1].x.to_vector() == std::vector<float>{3, 4});
  const auto stacks = [](const std::vector<linear>& all) { return stack_tree(all); };
  const std::vector<linear> two{make_linear(1), make_linear(2)};
  check_equal(compile(stacks)(two)[&linear::w], stacks(two)[&linear::w]);
  const auto apart = [](const stacked<linear>& s) { return unstack(s); };
  const auto items = compile(apart)(s[&net::one]);
  REQUIRE(items.size() == 4);
  check_equal(items[3].w, make_net(3).one.w);
  stacked<net> undefined;
  const auto said = error_of([&] { compile([](const stacked<net>& s) { return s[&net::b]; })(undefined); });
  CHECK(contains(said, "default-constructed"));
}

TEST_CASE("a function that takes the items' axis off each tensor of a stack gives the struct") {
  const stacked<net> s = stack_tree(nets(4));
  const auto total = [](const stacked<net>& s) { return tree_map([](const auto& t) { return sum(t, axis<0>); }, s); };
  static_assert(std::is_same_v<decltype(total(s)), net>);
  for (const net& n : {total(s), compile(total)(s)}) {
    check_equal(n.one.w, sum(s[&net::one][&linear::w], axis<0>));
    check_equal(n.two.b, sum(s[&net::two][&linear::b], axis<0>));
    CHECK(n.more.size() == s[&net::more].size());
    CHECK(n.scale->item() == sum(*s[&net::scale]).item());
    CHECK(n.depth == s[&net::depth]);
  }
  const hooked mean_of = tree_map([](const auto& t) { return mean(t, axis<0>); },
                                  stack_tree(std::vector{hooked(vec{1, 2}), hooked(vec{3, 6})}));
  CHECK(mean_of.x.to_vector() == std::vector<double>{2, 4});
  const stacked<stacked<linear>> deep = stack_tree(std::vector{s[&net::one], s[&net::two]});
  const stacked<linear> pair = tree_map([](const auto& t) { return max(t, axis<0>); }, deep);
  check_equal(pair[1].b, maximum(deep[0][1].b, deep[1][1].b));
}

TEST_CASE("stacks refuse in words") {
  const auto of = [](auto&& f) { return error_of(f); };
  CHECK(contains(of([] { stack_tree(std::vector<linear>{}); }), "[stack_tree] there is nothing to stack"));
  std::vector<net> all = nets(2);
  all[1].depth = 5;
  CHECK(contains(of([&] { stack_tree(all); }), "differ from those of tree 0; a stack has one for all"));
  all = nets(2);
  all[1].more.pop_back();
  CHECK(contains(of([&] { stack_tree(all); }), "std::vector of length 2"));
  all = nets(2);
  all[1].scale.reset();
  CHECK(contains(of([&] { stack_tree(all); }), "std::optional"));
  all = nets(2);
  all[1].one.b = vec{1, 2};
  CHECK(contains(of([&] { stack_tree(all); }), "[stack]"));
  stacked<linear> s = stack_tree(std::vector<linear>{make_linear(1), make_linear(2)});
  CHECK(contains(of([&] { s[2]; }), "[stacked] the index 2 is outside of a stack of 2"));
  CHECK(contains(of([&] { s[-3]; }), "outside"));
  s[&linear::b] = numbers(3, 5, 3);
  CHECK(contains(of([&] { s.size(); }), "the first axes of the stack differ: 2 and 5"));
  CHECK(contains(of([&] { unstack(s); }), "the first axes of the tree differ"));
}
