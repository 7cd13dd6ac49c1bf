// Guards: each kind is needed. Without it a call would be answered by a specialisation that does not fit.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include <sinter/guards/guard.hpp>

/// A class with a state of its own; its values collide.
class version {
 public:
  explicit version(int major, std::string name) : major_(major), name_(std::move(name)) {}
  int major() const { return major_; }
  bool operator==(const version&) const = default;

 private:
  int major_;
  std::string name_;
};
template <>
struct std::hash<version> {
  std::size_t operator()(const version& v) const { return static_cast<std::size_t>(v.major() % 2); }
};
/// Two classes whose values are all equal, and of one hash.
struct first_of_two {
  bool operator==(const first_of_two&) const { return true; }
};
struct second_of_two {
  bool operator==(const second_of_two&) const { return true; }
};
template <>
struct std::hash<first_of_two> {
  std::size_t operator()(const first_of_two&) const { return 2; }
};
template <>
struct std::hash<second_of_two> {
  std::size_t operator()(const second_of_two&) const { return 2; }
};

namespace {

using namespace sinter;
using engine::detail::guard;
using engine::detail::guard_kind;
using engine::detail::mismatch;

/// Takes a kind of guard away for its lifetime.
class without {
 public:
  explicit without(guard_kind kind) { engine::detail::ignored_guards() = 1u << static_cast<int>(kind); }
  ~without() { engine::detail::ignored_guards() = 0; }
  without(const without&) = delete;
  without& operator=(const without&) = delete;
};

template <class X>
std::vector<float> values_of(const X& x) {
  return x.to(device::cpu()).to_vector();
}

/// fn(first), then fn(second) under a guard and without it. With the guard the second call is right; without it the first
/// call's specialisation answers, and wrongly.
template <class F, class First, class Second, class Want>
void needs(guard_kind kind, F fn, const First& first, const Second& second, const Want& want) {
  INFO("guard ", engine::detail::name(kind));
  const auto guarded = compile(fn);
  std::apply(guarded, first);
  CHECK(values_of(std::apply(guarded, second)) == want);
  CHECK(guarded.specialisations() == 2);

  const auto unguarded = compile(fn);
  std::apply(unguarded, first);
  const without none(kind);
  CHECK(values_of(std::apply(unguarded, second)) != want);
  CHECK(unguarded.specialisations() == 1);
}

/// In what a call differs from another one of the same types; the call's device and its tensors' are one kind.
template <class... Args>
std::vector<guard_kind> differences(const std::tuple<Args...>& made_for, const std::tuple<Args...>& asked) {
  static char signature;
  const auto with = [&](const auto& args, auto&& then) {
    return std::apply(
        [&](const auto&... x) {
          detail::flat_arguments<Args...> flat("test", {}, x...);
          return then(engine::call{&signature, flat.tensors(), flat.statics(), flat.where({})});
        },
        args);
  };
  const guard g = with(made_for, [](const engine::call& c) { return guard(c, {}); });
  std::vector<guard_kind> kinds;
  with(asked, [&](const engine::call& c) {
    for (const mismatch& m : g.differences(c))
      if (kinds.empty() || kinds.back() != m.kind) kinds.push_back(m.kind);
    CHECK(g.accepts(c) == kinds.empty());
  });
  return kinds;
}

using kinds = std::vector<guard_kind>;
using vec = tensor<float, 1>;
using mat = tensor<float, 2>;

}  // namespace

TEST_CASE("types are guarded: another dtype is not read as this one") {
  needs(
      guard_kind::signature, [](auto x) { return cast<float>(x); }, std::tuple(vec{1, 2}),
      std::tuple(tensor<std::int32_t, 1>{1, 2}), std::vector<float>{1, 2});
}

TEST_CASE("extents are guarded") {
  needs(
      guard_kind::extent, [](vec x) { return sum(x); }, std::tuple(vec{1, 2, 3, 4}), std::tuple(vec{1, 2, 3, 4, 5, 6}),
      std::vector<float>{21});
}

TEST_CASE("strides are guarded") {
  const vec x{1, 2, 3, 4, 5, 6};
  needs(
      guard_kind::stride, [](vec x) { return x * 2; }, std::tuple(vec{1, 2, 3}), std::tuple(slice<0>(x, 0, 6, 2)),
      std::vector<float>{2, 6, 10});
}

TEST_CASE("integers, flags and enums are guarded") {
  const vec x{1, 2};
  const auto scaled = [](vec x, auto n) { return x * (static_cast<int>(n) + 1); };
  needs(guard_kind::value, scaled, std::tuple(x, 1), std::tuple(x, 2), std::vector<float>{3, 6});
  needs(guard_kind::value, scaled, std::tuple(x, false), std::tuple(x, true), std::vector<float>{2, 4});
  enum class level : unsigned char { low, high };
  needs(guard_kind::value, scaled, std::tuple(x, level::low), std::tuple(x, level::high), std::vector<float>{2, 4});
}

TEST_CASE("a float within a tree is guarded") {
  const vec x{1, 2};
  needs(
      guard_kind::value, [](std::pair<vec, float> p) { return p.first * p.second; }, std::make_tuple(std::pair(x, 1.f)),
      std::make_tuple(std::pair(x, 2.f)), std::vector<float>{2, 4});
}

TEST_CASE("lengths of vectors and engaged optionals are guarded") {
  using many = std::vector<vec>;
  CHECK(differences(std::tuple(many{{1}, {2}}), std::tuple(many{{1}})) == kinds{guard_kind::value});
  CHECK(differences(std::tuple(many{{1}}), std::tuple(many{{1}, {2}})) == kinds{guard_kind::value});
  using maybe = std::optional<vec>;
  CHECK(differences(std::tuple(maybe{}), std::tuple(maybe{vec{1}})) == kinds{guard_kind::value});
  CHECK(differences(std::tuple(many{{1}}), std::tuple(many{{2}})).empty());
}

TEST_CASE("text is guarded, all of it") {
  const vec x{1, 2};
  const auto chosen = [](vec x, const std::string& how) {
    return how == "a long name: twice" ? vec(x * 2) : how == "a long name: thrice" ? vec(x * 3) : vec(-x);
  };
  using std::string;
  needs(guard_kind::value, chosen, std::tuple(x, string("a long name: other")),
        std::tuple(x, string("a long name: thrice")), std::vector<float>{3, 6});
  needs(guard_kind::value, chosen, std::tuple(x, string("a long name: other")),
        std::tuple(x, string("a long name: twice")), std::vector<float>{2, 4});
  // Equal words, another length; and a zero at the end.
  CHECK(differences(std::tuple(string("abc")), std::tuple(string("abc\0", 4))) == kinds{guard_kind::value});
  CHECK(differences(std::tuple(string("abc")), std::tuple(string("abc"))).empty());
  CHECK(differences(std::tuple(std::string_view("abc")), std::tuple(std::string_view("abd"))) ==
        kinds{guard_kind::value});
  const auto f = compile(chosen);
  CHECK(f(x, "a long name: twice").to_vector() == std::vector<float>{2, 4});
  CHECK(f(x, string("a long name: twice")).to_vector() == std::vector<float>{2, 4});
  CHECK(f.specialisations() == 1);
  const auto view = compile([](vec x, std::string_view how) { return vec(how == "minus" ? -x : x); });
  CHECK(view(x, "minus").to_vector() == std::vector<float>{-1, -2});
  const char unended[] = {'m', 'i', 'n', 'u', 's'};
  CHECK(view(x, unended).to_vector() == std::vector<float>{-1, -2});
  CHECK(view.specialisations() == 1);
}

TEST_CASE("values of hashable classes are compared by ==, in trees and results as well") {
  int traces = 0;
  auto f = compile([&](tensor<float, 1> x, std::vector<version> v) {
    ++traces;
    return std::tuple{x * v.at(0).major(), v.back()};
  });
  const tensor<float, 1> x{1, 2};
  for (const int major : {1, 3, 1, 3}) {
    const auto [y, v] = f(x, std::vector{version(major, "a")});
    CHECK(y.to_vector() == std::vector{float(major), float(2 * major)});
    CHECK(v == version(major, "a"));
  }
  CHECK(traces == 2);
  f(x, std::vector{version(1, "b")});
  CHECK(traces == 3);
  f(x, std::vector{version(1, "b"), version(1, "a")});
  CHECK(traces == 4);
  CHECK(f.explain().text().find("of hash 1") != std::string::npos);
}

TEST_CASE("variants are trees: the alternative and what it holds are guarded as they are elsewhere") {
  using vec = tensor<float, 1>;
  using setting = std::variant<int, float, std::string, vec, std::monostate>;
  int traces = 0;
  auto f = compile([&](const vec& x, const setting& s) {
    ++traces;
    if (s.index() == 0) return std::pair{vec(x + float(std::get<0>(s))), s};
    if (s.index() == 1) return std::pair{vec(x / std::get<1>(s)), s};
    if (s.index() == 2) return std::pair{vec(x * float(std::get<2>(s).size())), s};
    if (s.index() == 3) return std::pair{vec(x * std::get<3>(s)), setting(vec(std::get<3>(s) + 1.f))};
    return std::pair{x, s};
  });
  const vec x{1, -2};
  const float inf = std::numeric_limits<float>::infinity();
  for (int i = 0; i < 2; ++i) {
    CHECK(f(x, 1).first.to_vector() == std::vector<float>{2, -1});
    CHECK(f(x, 1.f).first.to_vector() == std::vector<float>{1, -2});
    CHECK(f(x, 0.f).first.to_vector() == std::vector<float>{inf, -inf});
    CHECK(f(x, -0.f).first.to_vector() == std::vector<float>{-inf, inf});
    CHECK(std::isnan(f(x, inf - inf).first(0)));
    CHECK(f(x, std::string("abc")).first.to_vector() == std::vector<float>{3, -6});
    const auto [y, s] = f(x, vec{3, 4});
    CHECK(y.to_vector() == std::vector<float>{3, -8});
    CHECK(std::get<3>(s).to_vector() == std::vector<float>{4, 5});
    CHECK(std::get<0>(f(x, 7).second) == 7);
    CHECK(f(x, std::monostate()).second.index() == 4);
    CHECK(f(x, vec{float(i), 4}).first(0) == float(i));
  }
  CHECK(traces == 9);
  const std::vector<setting> some{2, vec{1, 2}};
  const auto twice = tree_map([](const vec& v) { return vec(v * 2.f); }, some);
  CHECK(std::get<3>(twice[1]).to_vector() == std::vector<float>{2, 4});
  CHECK(std::get<0>(twice[0]) == 2);
  CHECK_THROWS_WITH_AS(
      tree_map([](const vec& a, const vec& b) { return vec(a + b); }, some, std::vector<setting>{2, 3}),
      doctest::Contains("[tree_map] the trees differ at [1]: the first has a std::variant with "
                        "alternative 3, another a std::variant with alternative 0"),
      user_error);
}

TEST_CASE("paths are compared by their text") {
  const auto f = compile([](const tensor<float, 1>& x, const std::filesystem::path& p) {
    return x * static_cast<float>(p.string().size());
  });
  const tensor<float, 1> x{1};
  for (const char* p : {"a/b", "a//b", "a/b", "a/"})
    CHECK(f(x, std::filesystem::path(p)).item() == std::string(p).size());
  CHECK(f.specialisations() == 3);
}

TEST_CASE("values of two classes are never equal") {
  const first_of_two a;
  const second_of_two b;
  const std::size_t hash = std::hash<first_of_two>()(a);
  REQUIRE(hash == std::hash<second_of_two>()(b));
  const auto number = engine::value_number(detail::value_class_of<first_of_two>, hash, &a);
  CHECK(engine::value_number(detail::value_class_of<first_of_two>, hash, &a) == number);
  CHECK(engine::value_number(detail::value_class_of<second_of_two>, hash, &b) != number);
}

TEST_CASE("numbers of values: equal ones share one, others never get it, what is in use keeps it") {
  const auto number = [](int major) {
    const version v(major, "n");
    return engine::value_number(detail::value_class_of<version>, std::hash<version>()(v), &v);
  };
  const auto first = number(-1);
  std::set<std::uint64_t> seen{first};
  for (int major = 0; major < 3000; ++major) {
    CHECK(seen.insert(number(major)).second);
    if (major % 100 == 0) CHECK(number(-1) == first);
  }
  for (int major = 3000; major < 12000; ++major) number(major);
  CHECK(seen.insert(number(-1)).second);  // long forgotten: a new number, not one that was given
}

TEST_CASE("the value of a number that became a C++ number is guarded") {
  const vec x{1, 2};
  const auto scaled = [](vec x, float by) { return x * by; };
  needs(guard_kind::number, scaled, std::tuple(x, 1.f), std::tuple(x, 2.f), std::vector<float>{2, 4});
  needs(
      guard_kind::number, [](vec x, auto by) { return by > 1 ? vec(x * by) : x; }, std::tuple(x, 1.), std::tuple(x, 2.),
      std::vector<float>{2, 4});
  // One that bodies and branches compute, and ask for.
  const auto in_loop = [](vec x, auto by) {
    return vec(fori_loop(
        0, 1, [&](auto, vec h) { return by - 1 > 0 ? vec(h * by) : h; }, x));
  };
  needs(guard_kind::number, in_loop, std::tuple(x, 1.f), std::tuple(x, 2.f), std::vector<float>{2, 4});
  const auto in_scan = [](vec x, auto by) {
    const auto step = [&](tensor<float, 0> sum, tensor<float, 0> e) {
      const float k = by * 2;
      const tensor<float, 0> next = sum + e * k;
      return std::pair{next, next};
    };
    return vec(scan(step, tensor<float, 0>(0.f), x).second);
  };
  needs(guard_kind::number, in_scan, std::tuple(x, 1.f), std::tuple(x, 2.f), std::vector<float>{4, 12});
  const auto in_while = [](vec x, auto by) {
    return vec(while_loop([&](vec h) { return by == 1 ? max(h) < 3.f : max(h) < 5.f; },
                          [&](vec h) { return vec(h + static_cast<float>(by + by)); }, x));
  };
  needs(guard_kind::number, in_while, std::tuple(x, 1.f), std::tuple(x, 2.f), std::vector<float>{5, 6});
  const auto in_branch = [](vec x, auto by) {
    return vec(cond(
        sum(x) > 0,
        [&] {
          return vec(fori_loop(
              0, 1, [&](auto, vec h) { return by <= 1 ? h : vec(h * by); }, x));
        },
        [&] { return x; }));
  };
  needs(guard_kind::number, in_branch, std::tuple(x, 1.f), std::tuple(x, 2.f), std::vector<float>{2, 4});
}

TEST_CASE("autocast's dtype is guarded") {
  const mat a{{1 + 1.f / 1024}}, b{{1}};
  const auto product = [](mat a, mat b) { return matmul(a, b); };
  const auto f = compile(product);
  const auto low = autocast<bf16>([&](mat a, mat b) { return f(a, b); });
  CHECK(values_of(low(a, b)) == std::vector<float>{1});
  CHECK(values_of(f(a, b)) == std::vector<float>{1 + 1.f / 1024});
  CHECK(f.specialisations() == 2);

  const auto g = compile(product);
  autocast<bf16>([&](mat a, mat b) { return g(a, b); })(a, b);
  const without none(guard_kind::setting);
  CHECK(values_of(g(a, b)) == std::vector<float>{1});
}

TEST_CASE("what a function asked of open extents is guarded") {
  const vec y{1, 2, 3, 4, 5};
  const auto longer = [](vec x) { return x.size(0) > 4 ? vec(x * 2) : vec(-x); };
  const auto guarded = compile(longer, {.dynamic = dynamic::yes});
  CHECK(values_of(guarded(vec{1, 2, 3})) == std::vector<float>{-1, -2, -3});
  CHECK(values_of(guarded(vec{1, 2})) == std::vector<float>{-1, -2});
  CHECK(guarded.specialisations() == 1);
  CHECK(values_of(guarded(y)) == std::vector<float>{2, 4, 6, 8, 10});
  CHECK(guarded.specialisations() == 2);

  const auto unguarded = compile(longer, {.dynamic = dynamic::yes});
  unguarded(vec{1, 2, 3});
  const without none(guard_kind::relation);
  CHECK(values_of(unguarded(y)) == std::vector<float>{-1, -2, -3, -4, -5});
}

TEST_CASE("strides of open tensors with gaps between their rows are guarded") {
  const auto columns = [](std::int64_t rows, std::int64_t stride) {
    std::vector<float> all;
    for (std::int64_t i = 0; i < rows * stride; ++i) all.push_back(static_cast<float>(i));
    const mat whole = from_span(all, std::array{rows, stride});
    return mat(slice<1>(whole, 1, 4));
  };
  const auto f = compile([](mat x) { return x * 2; }, {.dynamic = dynamic::yes});
  f(columns(4, 6));
  CHECK(values_of(f(columns(2, 6))) == std::vector<float>{2, 4, 6, 14, 16, 18});
  CHECK(f.specialisations() == 1);
  CHECK(values_of(f(columns(2, 9))) == std::vector<float>{2, 4, 6, 20, 22, 24});
  CHECK(f.specialisations() == 2);
}

TEST_CASE("segments between breaks are made for a device, and on a GPU for aligned addresses") {
  if (device_count() == 0) return;
  const auto nothing = compile([] {
    const vec a = arange<float>(4) * 2;
    return sum(a).item() > 0 ? vec(a + 1) : a;
  });
  CHECK(nothing().device() == device::cpu());
  {
    const device_scope scope(device::cuda(0));
    CHECK(nothing().device() == device::cuda(0));
  }
  std::vector<float> numbers;
  for (int i = 0; i < 65; ++i) numbers.push_back(static_cast<float>(i));
  const vec there = vec(from_span(numbers, std::array{std::int64_t{65}})).to(device::cuda(0));
  const auto f = compile([](vec x) {
    const vec y = x * 2;
    return sum(y).item() > 0 ? vec(y + 1) : y;
  });
  CHECK(values_of(f(slice<0>(there, 0, 64)))[63] == 127);
  CHECK(values_of(f(slice<0>(there, 1, 65)))[63] == 129);
}

TEST_CASE("functions share the programs of those with equal options alone") {
  if (device_count() == 0) return;
  const device gpu = device::cuda(0);
  const auto is_atomic = [](const auto& f) {
    const report r = f.report();
    return std::any_of(r.sources.begin(), r.sources.end(),
                       [](const auto& text) { return text.find("atomic_add(p") != text.npos; });
  };
  const mat base = full<float>(0.f, 4, 8).to(gpu), updates = full<float>(1.f, 3, 8).to(gpu);
  const auto rows = tensor<std::int64_t, 1>{0, 2, 0}.to(gpu);
  const auto added = [](auto base, auto rows, auto updates) { return scatter_add(base, rows, updates); };
  const auto any = compile(added), ordered = compile(added, {.deterministic = true});
  any(base, rows, updates);
  ordered(base, rows, updates);
  CHECK(is_atomic(any));
  CHECK(!is_atomic(ordered));

  const mat a = full<float>(1 + 1.f / 4096, 64, 64).to(gpu);
  const auto product = [](auto a) { return matmul(a, a); };
  const auto exact = compile(product), high = compile(product, {.precision = precision::high});
  CHECK(values_of(exact(a)) != values_of(high(a)));

  const auto chain = [](auto a) { return matmul(matmul(matmul(matmul(a, a), a), a), a); };
  const auto alone = compile(chain), recorded = compile(chain, {.mode = mode::reduce_overhead});
  alone(a);
  recorded(a);
  CHECK(alone.report().scratch_bytes < recorded.report().scratch_bytes);
}

TEST_CASE("which device is guarded, and whether addresses are aligned on a GPU") {
  if (device_count() == 0) return;
  const vec host{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
  const vec there = host.to(device::cuda(0));
  CHECK(differences(std::tuple(host), std::tuple(there)) == kinds{guard_kind::device});
  CHECK(differences(std::tuple(there), std::tuple(host)) == kinds{guard_kind::device});

  const vec aligned = slice<0>(there, 0, 16), misaligned = slice<0>(there, 1, 17);
  CHECK(differences(std::tuple(aligned), std::tuple(misaligned)) == kinds{guard_kind::alignment});
  if (device_count() > 1) {  // of each tensor, not of the first alone
    const auto added = compile([](vec x, vec y) { return x + y; });
    added(there, there);
    CHECK_THROWS_AS(added(there, host.to(device::cuda(1))), user_error);
  }
  const auto twice = [](vec x) { return x * 2; };
  const auto guarded = compile(twice);
  guarded(aligned);
  CHECK(values_of(guarded(misaligned))[15] == 34);
  CHECK(guarded.specialisations() == 2);
}

TEST_CASE("where a function without tensors runs is guarded, and so is a dtype that types do not tell") {
  static char signature;
  const float number = 1;
  engine::argument x;
  x.data = const_cast<float*>(&number);
  x.by_value = true;
  const engine::call one{&signature, {&x, 1}, {}, device::cpu()};
  const guard g(one, {});
  CHECK(g.accepts(one));
  engine::call elsewhere = one;
  elsewhere.where = device::cuda(1);
  CHECK(g.differences(elsewhere).size() == 1);
  CHECK(g.differences(elsewhere)[0].kind == guard_kind::device);
  engine::argument y = x;
  y.type = dtype::i32;
  const engine::call other{&signature, {&y, 1}, {}, device::cpu()};
  CHECK(g.differences(other)[0].kind == guard_kind::dtype);
  CHECK(!g.accepts(other));
}
