// Maps by keys, optionals, variants, arrays and nested vectors; classes that say what their fields are: through tree_map,
// compile, its guards, grad, loops.
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../../close.hpp"
#include "../../texts.hpp"

using namespace sinter;
using texts::error_of;
using vec = tensor<float, 1>;
using named = std::map<std::string, vec>;

namespace containers {

struct deep {
  std::map<std::string, std::vector<std::map<std::string, vec, std::greater<>>>> all;
  std::array<std::vector<std::vector<vec>>, 2> lists;
  std::optional<std::variant<vec, named>> choice;
};

/// Keeps a count that is no part of the tree, and has no default constructor.
class counted {
 public:
  counted(vec w, int count) : w_(std::move(w)), count_(count) {}
  static constexpr auto sinter_fields(auto& self) { return std::tie(self.w_, self.power_); }
  const vec& w() const { return w_; }
  int count() const { return count_; }
  int power() const { return power_; }
  void set_power(int n) { power_ = n; }

 private:
  vec w_;
  int power_ = 1, count_;
};

struct base {
  vec low;
};
/// An aggregate that could not be taken apart: it has a base, and a bit-field.
struct derived : base {
  vec high;
  unsigned kind : 3;
};

/// Another's class, whose constructors stay as they are.
class foreign {
 public:
  explicit foreign(vec x) : x_(std::move(x)) {}
  vec& x() { return x_; }
  const vec& x() const { return x_; }

 private:
  vec x_;
};

}  // namespace containers

using namespace containers;

template <>
struct sinter::tree_of<containers::derived> {
  static constexpr auto fields(auto& self) { return std::tie(self.low, self.high); }
};
template <>
struct sinter::tree_of<containers::foreign> {
  static auto fields(containers::foreign& self) { return std::tie(self.x()); }
};

namespace {

vec some(std::uint64_t key, std::int64_t n = 3) { return normal<float>(make_key(key), n); }
named two() { return {{"b", some(1)}, {"a", some(2, 4)}}; }
deep some_deep() {
  deep d;
  d.all["x"] = {{{"p", some(1)}, {"q", some(2)}}, {}};
  d.all["y"] = {};
  d.lists[1] = {{some(3)}, {}, {some(4), some(5)}};
  d.choice = two();
  return d;
}
std::vector<float> all_of(const auto& tree) {
  std::vector<float> out;
  detail::for_each_leaf(tree, [&]<class X>(const X& x) {
    if constexpr (tensor_like<X>)
      for (float v : x.to_vector()) out.push_back(v);
  });
  return out;
}

}  // namespace

TEST_CASE("maps are mapped, reduced, listed and walked by their keys' order") {
  const named m = two();
  const named n = tree_map([](const auto& x) { return x + 1.f; }, m);
  CHECK(n.at("a")(3) == m.at("a")(3) + 1);
  const auto counts = tree_map([](const auto& x) -> std::int64_t { return x.numel(); }, m);
  static_assert(std::is_same_v<decltype(counts), const std::map<std::string, std::int64_t>>);
  CHECK(counts.at("a") == 4);
  CHECK(counts.at("b") == 3);
  const auto leaves = tree_leaves(m);
  static_assert(std::is_same_v<decltype(leaves), const std::vector<vec>>);
  CHECK(leaves[0].numel() == 4);
  CHECK(tree_reduce([](std::int64_t k, const auto& x) { return k + x.numel(); }, m, std::int64_t{0}) == 7);
  const std::map<std::string, int> numbers{{"one", 1}, {"two", 2}};
  CHECK(tree_map([](int x) { return x * 2; }, numbers).at("two") == 4);
  CHECK(tree_reduce([](int a, int b) { return a + b; }, numbers, 0) == 3);
  const auto lazy = tree_map([](const auto& x) { return x * 2.f; }, std::map<std::string, decltype(m.at("a") + 1.f)>{});
  static_assert(std::is_same_v<decltype(lazy), const named>);
}

TEST_CASE("maps of other keys, or of other sizes, differ") {
  const auto add = [](const auto& a, const auto& b) { return a + b; };
  const auto widen = [](const auto& a, const auto& b) { return cast<double>(a + b); };
  named m = two(), n = two();
  n["c"] = some(4);
  for (const auto& text : {error_of([&] { tree_map(add, m, n); }), error_of([&] { tree_map(widen, m, n); })})
    CHECK_MESSAGE(
        text.find("[tree_map] the trees differ: the first has a std::map of size 2, another a std::map of size 3") == 0,
        text);
  m["d"] = some(4);
  struct in_field {
    int k;
    named by_name;
  };
  const std::vector<in_field> a{{1, m}}, b{{1, n}};
  const auto text = error_of([&] { tree_map(add, a, b); });
  CHECK_MESSAGE(
      text.find(
          "the trees differ at [0].by_name: the first has a std::map with a key \"d\", where another has \"c\"") !=
          std::string::npos,
      text);
  CHECK(error_of([&] { tree_map(widen, m, n); }).find("a key \"d\", where another has \"c\"") != std::string::npos);
  const std::map<std::string, std::vector<vec>> one{{"k", {some(1)}}}, more{{"k", {some(1), some(1)}}};
  const auto inner = error_of([&] { tree_map(add, one, more); });
  CHECK_MESSAGE(inner.find("differ at [\"k\"]: the first has a std::vector") != std::string::npos, inner);
}

TEST_CASE("a compiled function is specialised by a map's keys, and only by those") {
  int traces = 0;
  const auto f = compile([&](const named& m) {
    ++traces;
    named out;
    for (const auto& [key, x] : m) out[key + "!"] = x * float(key.size());
    return out;
  });
  const named m = two(), n = f(m);
  CHECK(n.at("a!").to_vector() == m.at("a").to_vector());
  CHECK(traces == 1);
  const named same{{"a", some(8, 4)}, {"b", some(9)}};
  CHECK(f(same).at("b!").to_vector() == same.at("b").to_vector());
  CHECK(traces == 1);
  const named other{{"a", some(8, 4)}, {"bcd", some(9)}},
      longer{{"a", some(8, 4)}, {"a string of more bytes than a word has", some(9)}};
  check_close(f(other).at("bcd!").to_vector(), vec(other.at("bcd") * 3.f).to_vector(), 1e-6);
  CHECK(traces == 2);
  CHECK(f(longer).count("a string of more bytes than a word has!") == 1);
  CHECK(f(named{}).empty());
  CHECK(traces == 4);
  CHECK(f(longer).size() == 2);
  CHECK(f(other).size() == 2);
  CHECK(traces == 4);
  CHECK(detail::describe_leaf(1, true, m).name == "argument 0[\"b\"]");
  CHECK(detail::describe_leaf(1, false, m).name == "argument 0's key 0");
  CHECK(detail::describe_leaf(1, false, m).value == "\"a\"");
}

TEST_CASE("deep trees through compile and grad, on every backend") {
  const deep d = some_deep();
  const auto loss = [](const deep& d) {
    auto total = sum(d.all.at("x")[0].at("q") * d.lists[1][2][1] * 2.f);
    for (const auto& [key, x] : std::get<named>(*d.choice)) total = total + sum(x * x);
    return total;
  };
  const deep want = grad(loss)(d);
  check_close(want.lists[1][2][1].to_vector(), vec(d.all.at("x")[0].at("q") * 2.f).to_vector(), 1e-6);
  check_close(std::get<named>(*want.choice).at("a").to_vector(), vec(two().at("a") * 2.f).to_vector(), 1e-6);
  CHECK(want.lists[1][0][0].to_vector() == std::vector<float>{0, 0, 0});
  CHECK(want.all.at("x")[1].empty());
  for (const char* backend : {"cpu", "reference"}) {
    const auto f = compile(grad(loss), {.fullgraph = true, .backend = backend});
    check_close(all_of(f(d)), all_of(want), 1e-6);
    const auto g =
        compile([](const deep& d) { return tree_map([](const auto& x) { return x + x; }, d); }, {.backend = backend});
    check_close(all_of(g(d)), all_of(tree_map([](const auto& x) { return 2.f * x; }, d)), 1e-6);
    deep e = d;
    e.choice = some(3);
    CHECK(std::get<vec>(*g(e).choice)(1) == 2 * some(3)(1));
  }
}

TEST_CASE("flags in a vector beside tensors are arguments and results") {
  struct flagged {
    vec x;
    std::vector<bool> on;
  };
  const auto f = compile([](const flagged& s) { return tree_map([](const auto& x) { return x * 2.f; }, s); });
  const flagged got = f(flagged{some(1), {true, false}});
  CHECK(got.on == std::vector<bool>{true, false});
  CHECK(got.x(2) == 2 * some(1)(2));
  CHECK(f(flagged{some(1), {false, false}}).on == std::vector<bool>{false, false});
}

TEST_CASE("maps are carries of loops, results of branches, and arguments of host_call and disable") {
  const auto f = compile([](const named& m, const vec& xs) {
    const named looped = fori_loop(
        0, 3,
        [](const auto&, const named& c) {
          named out = c;
          out["a"] = c.at("a") + sum(c.at("b"));
          return out;
        },
        m);
    const auto [last, all] = scan(
        [](const named& c, const auto& x) {
          named next = tree_map([&](const auto& t) { return t * x; }, c);
          return std::pair{next, next};
        },
        looped, xs);
    return std::pair{cond(
                         sum(xs) > 0.f, [](const named& c) { return c; },
                         [](const named& c) { return tree_map([](auto x) { return -x; }, c); }, last),
                     all};
  });
  named m = two();
  const vec xs{2.f, -3.f, 0.5f};
  const auto [got, all] = f(m, xs);
  const float s = sum(m.at("b")).item() * 3;
  check_close(got.at("a").to_vector(), vec((m.at("a") + s) * 3.f).to_vector(), 1e-5);
  CHECK(all.at("b").size(0) == 3);
  std::string keys;
  const auto g = compile([&](const named& m) {
    host_call(
        [&](const named& x) {
          for (const auto& [k, v] : x) keys += k + std::to_string(v.numel());
        },
        m);
    return disable([](const named& x) { return named{{"z", x.at("b")}}; })(m);
  });
  CHECK(g(m).at("z").to_vector() == m.at("b").to_vector());
  CHECK(keys == "a4b3");
}

TEST_CASE("a class with a hook is a tree; what the hook leaves out is copied") {
  counted c(some(1), 11);
  c.set_power(3);
  const counted d = tree_map([](const auto& x) { return x * 2.f; }, c);
  CHECK(d.w()(2) == c.w()(2) * 2);
  CHECK(d.count() == 11);
  CHECK(d.power() == 3);
  static_assert(detail::facts_of<counted>.tensors == 1 && detail::facts_of<counted>.statics == 1);
  int traces = 0;
  const auto f = compile([&](const counted& c) {
    ++traces;
    return tree_map([&](const auto& x) { return x * float(c.power()); }, c);
  });
  CHECK(f(c).w()(1) == c.w()(1) * 3);
  CHECK(f(counted(some(4), 12)).w()(1) == some(4)(1));
  CHECK(f(counted(some(5), 13)).w()(1) == some(5)(1));
  CHECK(traces == 2);
  const counted g = compile(grad([](const counted& c) { return sum(c.w() * c.w()); }))(c);
  check_close(g.w().to_vector(), vec(c.w() * 2.f).to_vector(), 1e-6);
  const auto sum_of = tree_map([](const auto& a, const auto& b) { return a + b; }, c, d);
  CHECK(sum_of.w()(0) == 3 * c.w()(0));
  const std::map<std::string, counted> many{{"k", c}};
  CHECK(tree_map([](const auto& x) { return x + 1.f; }, many).at("k").w()(0) == c.w()(0) + 1);
}

TEST_CASE("a hook outside of the class: of bases and bit-fields, of another's class") {
  derived d;
  d.low = some(1), d.high = some(2), d.kind = 5;
  const derived e = compile([](const derived& x) { return tree_map([](const auto& v) { return v + 1.f; }, x); })(d);
  CHECK(e.low(1) == d.low(1) + 1);
  CHECK(e.high(1) == d.high(1) + 1);
  CHECK(e.kind == 5);
  CHECK(tree_paths(d) == std::vector<std::string>{"low", "high"});
  const foreign x(some(3));
  const foreign y = tree_map([](const auto& v) { return v * 2.f; }, x);
  CHECK(y.x()(0) == x.x()(0) * 2);
  CHECK(tree_paths(x) == std::vector<std::string>{"0"});  // not constexpr: the compiler cannot say
  CHECK(compile([](const foreign& x) { return foreign(vec(x.x() - 1.f)); })(x).x()(2) == x.x()(2) - 1);
}
