// compile(): every kind of tree in and out, what guards a specialisation, captures, errors, threads.
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <boost/hana/define_struct.hpp>

#include <sinter/sinter.hpp>

#include "../../texts.hpp"

using namespace sinter;
using texts::contains;
using texts::error_of;

// What programs call things of their own: `using namespace sinter` leaves these to them.
enum class kind { linear, cubic };
struct name {};
struct dispatch {};
struct custom {};
struct callback {};

namespace compiling {

enum class activation { none, twice };

struct block {
  tensor<float, 1> w;
  std::vector<tensor<float, 1>> more;
  std::optional<tensor<float, 1>> bias;
  activation act = activation::none;
  float scale = 1;
};

struct described {
  BOOST_HANA_DEFINE_STRUCT(described, (tensor<float, 1>, gain), (int, times));
};

struct nothing {};

}  // namespace compiling

using namespace compiling;

namespace {

using vec = tensor<float, 1>;
using matrix = tensor<float, 2>;
using floats = std::vector<float>;

}  // namespace

TEST_CASE("a function is traced once and computes every time") {
  int traces = 0;
  const auto f = compile([&traces](vec x) {
    ++traces;
    return x * 2.f + 1.f;
  });
  const vec x{1, 2, 3};
  const auto y = f(x);
  static_assert(std::is_same_v<decltype(y), const vec>);
  CHECK(y.to_vector() == floats{3, 5, 7});
  CHECK(f(vec{4, 5, 6}).to_vector() == floats{9, 11, 13});
  CHECK(traces == 1);
  CHECK(f.specialisations() == 1);
  CHECK(f.report().nodes_traced == 5);
}

TEST_CASE("argument trees of every kind") {
  const auto f = compile(
      [](const block& b, std::tuple<vec, int> t, std::pair<vec, vec> p, std::array<vec, 2> a, described d, nothing) {
        vec out = b.w * b.scale;
        for (const auto& m : b.more) out = out + m;
        if (b.bias) out = out + *b.bias;
        if (b.act == activation::twice) out = out * 2.f;
        return out + std::get<0>(t) * static_cast<float>(std::get<1>(t)) + p.first - p.second + a[0] * a[1] +
               d.gain * static_cast<float>(d.times);
      });
  const vec one{1, 1}, two{2, 2}, three{3, 3};
  block b{one, {two, three}, two, activation::twice, 3};
  const auto call = [&] {
    return f(b, std::tuple{one, 5}, std::pair{three, one}, std::array{two, three}, described{two, 4}, nothing{});
  };
  // ((1·3 + 2 + 3) + 2)·2 + 1·5 + 3 - 1 + 2·3 + 2·4
  CHECK(call().to_vector() == floats{41, 41});
  CHECK(f.specialisations() == 1);
  b.more.pop_back();
  CHECK(call().to_vector() == floats{35, 35});
  b.bias.reset();
  CHECK(call().to_vector() == floats{31, 31});
  b.act = activation::none;
  CHECK(call().to_vector() == floats{26, 26});
  b.scale = 4;
  CHECK(call().to_vector() == floats{27, 27});
  CHECK(f.specialisations() == 5);
  b = {one, {two, three}, two, activation::twice, 3};
  CHECK(call().to_vector() == floats{41, 41});
  CHECK(f.specialisations() == 5);
}

TEST_CASE("result trees of every kind") {
  const vec x{1, 2};
  const auto many = compile([](vec x) {
    return std::tuple{x + 1.f,
                      7,
                      std::vector{vec(x * 2.f), x},
                      std::optional<vec>(x),
                      std::optional<vec>(),
                      block{x * 3.f, {x}, {}, activation::twice, 2.5f},
                      described{x * 4.f, 9},
                      std::array{x * 5.f}};
  });
  for (int call = 0; call < 2; ++call) {
    const auto [sum, seven, list, some, none, b, d, array] = many(x);
    static_assert(std::is_same_v<decltype(sum), const vec>);
    static_assert(std::is_same_v<decltype(array), const std::array<vec, 1>>);
    CHECK(sum.to_vector() == floats{2, 3});
    CHECK(seven == 7);
    REQUIRE(list.size() == 2);
    CHECK(list[0].to_vector() == floats{2, 4});
    CHECK(list[1].to_vector() == floats{1, 2});
    CHECK(some->to_vector() == floats{1, 2});
    CHECK(!none);
    CHECK(b.w.to_vector() == floats{3, 6});
    CHECK(b.more[0].to_vector() == floats{1, 2});
    CHECK(b.act == activation::twice);
    CHECK(b.scale == 2.5f);
    CHECK(d.gain.to_vector() == floats{4, 8});
    CHECK(d.times == 9);
    CHECK(array[0].to_vector() == floats{5, 10});
  }

  int runs = 0;
  const auto silent = compile([&runs](vec) { ++runs; });
  silent(x);
  silent(x);
  CHECK(runs == 1);
  CHECK(compile([](vec x) { return x.size(0); })(x) == 2);
  CHECK(compile([](int n) { return n + 1; })(4) == 5);
  CHECK(compile([] { return zeros<float>(3) + 2.f; })().to_vector() == floats{2, 2, 2});
}

TEST_CASE("guards: dtype and rank by type, extents, strides and numbers by value") {
  int traces = 0;
  const auto f = compile([&traces](auto x, auto by) {
    ++traces;
    return x * static_cast<typename decltype(x)::value_type>(by);
  });
  CHECK(f(vec{1, 2}, 2).to_vector() == floats{2, 4});
  CHECK(f(vec{1, 2}, 3).to_vector() == floats{3, 6});
  CHECK(f(vec{1, 2, 3}, 3).to_vector() == floats{3, 6, 9});
  CHECK(f(tensor<double, 1>{1, 2}, 3).to_vector() == std::vector<double>{3, 6});
  CHECK(f(vec{1, 2}, 3.f).to_vector() == floats{3, 6});
  CHECK(f(tensor<float, 2>{{1, 2}}, 3).to_vector() == floats{3, 6});
  CHECK(traces >= 5);
  const int before = traces;
  CHECK(f(vec{5, 6}, 2).to_vector() == floats{10, 12});
  CHECK(f(vec{5, 6}, 3.f).to_vector() == floats{15, 18});
  CHECK(traces == before);

  const vec base{1, 2, 3, 4};
  const auto every_second = detail::access::make<float, dims(1)>(detail::access::memory(base), base.data(), {2}, {2});
  const auto reversed = detail::access::make<float, dims(1)>(detail::access::memory(base), base.data() + 3, {4}, {-1});
  CHECK(f(every_second, 2).to_vector() == floats{2, 6});
  CHECK(f(reversed, 2).to_vector() == floats{8, 6, 4, 2});
  CHECK(f(base, 2).to_vector() == floats{2, 4, 6, 8});
}

TEST_CASE("static extents stay static") {
  const auto f = compile([](tensor<float, dims{dyn, 2}> x) { return x + 1.f; });
  const auto y = f(tensor<float, dims{dyn, 2}>{{1, 2}});
  static_assert(decltype(y)::static_shape == dims{dyn, 2});
  CHECK(y.to_vector() == floats{2, 3});
}

TEST_CASE("arguments: expressions, const, lvalues and rvalues") {
  const auto f = compile([](const auto& x) { return x + x; });
  const vec x{1, 2};
  vec y{3, 4};
  CHECK(f(x + 1.f).to_vector() == floats{4, 6});
  CHECK(f(y).to_vector() == floats{6, 8});
  CHECK(f(std::move(y)).to_vector() == floats{6, 8});
  CHECK(f.specialisations() == 1);
  const auto g = compile([](std::tuple<vec, vec> t) { return std::get<0>(t) - std::get<1>(t); });
  CHECK(g(std::tuple{x * 3.f, x}).to_vector() == floats{2, 4});
}

TEST_CASE("captured tensors are read by every call") {
  vec w{10, 20};
  const auto f = compile([w](vec x) { return std::pair{x * w, w}; });
  CHECK(f(vec{1, 2}).first.to_vector() == floats{10, 40});
  w.data()[0] = 5;
  const auto [product, itself] = f(vec{1, 2});
  CHECK(product.to_vector() == floats{5, 40});
  CHECK(itself.to_vector() == floats{5, 20});
  CHECK(itself.data() != w.data());
}

TEST_CASE("what else is captured is as it was when the function was traced") {
  int times = 2;
  const auto f = compile([&times](vec x) { return x * times; });
  CHECK(f(vec{1, 2}).to_vector() == floats{2, 4});
  times = 5;
  CHECK(f(vec{1, 2}).to_vector() == floats{2, 4});
  CHECK(f.specialisations() == 1);
}

TEST_CASE("an argument may be returned, twice, and dropped") {
  const auto f = compile([](vec x, vec) { return std::pair{x, x}; });
  const vec x{1, 2};
  const auto [a, b] = f(x, vec{3});
  CHECK(a.to_vector() == floats{1, 2});
  CHECK(b.to_vector() == floats{1, 2});
  CHECK(a.data() != x.data());
}

TEST_CASE("functions: move-only, mutable, pointers; copies share; nesting inlines") {
  auto owned = std::make_unique<float>(3.f);
  const auto f = compile([p = std::move(owned)](vec x) { return x * *p; });
  CHECK(f(vec{2}).item() == 6);
  const auto copy = f;
  copy(vec{3});
  CHECK(f.specialisations() == 1);
  int inner_traces = 0;
  const auto inner = compile([&](vec x) {
    ++inner_traces;
    return x + 1.f;
  });
  const auto outer = compile([&](vec x) { return inner(inner(x)) * 2.f; });
  CHECK(outer(vec{1}).item() == 6);
  CHECK(outer.specialisations() == 1);
  CHECK(inner.specialisations() == 0);
  CHECK(inner_traces == 2);
  CHECK(compile(+[](vec x) { return -x; })(vec{1}).item() == -1);
}

TEST_CASE("a compiled function that was moved from stays as it was") {
  const tensor<float, 1> x{1, 2};
  auto f = compile([](const tensor<float, 1>& v) { return v * 2; });
  auto g = std::move(f);
  CHECK(f(x)(1) == 4);
  CHECK(g(x)(1) == 4);
  g = std::move(f);
  CHECK(f(x)(0) == 2);
  CHECK(f.specialisations() == 1);
}

TEST_CASE("what the function throws passes through, and a later call works") {
  bool broken = true;
  const auto f = compile([&](vec x) {
    if (broken) throw std::runtime_error("not today");
    return x + 1.f;
  });
  CHECK_THROWS_WITH_AS(f(vec{1}), "not today", std::runtime_error);
  CHECK(f.specialisations() == 0);
  CHECK(!engine::current());
  broken = false;
  CHECK(f(vec{1}).item() == 2);
}

TEST_CASE("mistakes are named") {
  const auto f = compile([](vec x) { return x + 1.f; }, {.name = "step"});
  const auto undefined = error_of([&] { f(vec()); });
  CHECK(contains(undefined, "[step] an argument holds a default-constructed tensor"));
  CHECK(contains(undefined, "compile_test.cpp:"));
  vec leaked;
  const auto leak = compile([&](vec x) {
    leaked = x;
    return x + 1.f;
  });
  leak(vec{1});
  CHECK(contains(error_of([&] { f(leaked); }), "traced by a function that has returned"));
  CHECK(contains(error_of([&] { vec(leaked + 1.f); }), "after its trace ended"));
  CHECK(contains(error_of([&] { compile([](vec x) { return x.fill(1) + x; })(vec{1}); }), "[fill]"));
  CHECK(contains(error_of([&] { compile([](vec x) { return x; }, {.donate = {1}})(vec{1}); }), "argument 1 of 1"));
  CHECK(contains(error_of([&] { compile([](vec x, vec y) { return x + y; })(vec{1, 2}, vec{1, 2, 3}); }), "(3,)"));
}

TEST_CASE("a traced tensor used by another thread, or where nothing is traced, is told as that") {
  const auto in_thread = [](auto&& f) {
    std::string said;
    std::thread([&] { said = error_of(f); }).join();
    return said;
  };
  std::string computed, read, another, size, in_disabled;
  const auto f = compile(
      [&](vec x, const tensor<float, 2>&) {
        computed = in_thread([&] { vec(x + 1.f); });
        read = in_thread([&] { (void)x.to_vector(); });
        another = in_thread([&] { trace([&](vec z) { return z + x; })(vec{1}); });
        in_disabled = error_of([&] { disable([&](vec z) { return vec(z + x); })(x); });
        return x + 1.f;
      },
      {.dynamic = dynamic::yes});
  f(vec{1}, ones<float>(3, 2));
  compile(
      [&](vec x) {
        const std::string said = in_thread([&] { (void)(x.size(0) + x.size(0)); });
        if (!said.empty()) size = said;
        return x + 1.f;
      },
      {.dynamic = dynamic::yes})(vec{1, 2, 3});
  CHECK(contains(computed, "used by another thread than the one that traces"));
  CHECK(contains(computed, "compile_test.cpp:"));
  CHECK(contains(read, "used by another thread than the one that traces"));
  CHECK(contains(size, "or by another thread"));
  CHECK(contains(another, "traced by another trace"));
  CHECK(contains(in_disabled, "used where its trace does not see it; pass it as an argument to what disable(f)"));
}

TEST_CASE("an argument that does not fit its parameter is an error that names the line of the caller") {
  using wide = tensor<float, dims{dyn, 64}>;
  struct model {
    tensor<float, 0> total(wide v) const { return sum(v); }
  };
  const auto total = &model::total;
  const auto f = [](wide v) { return sum(v); };
  const auto next = [](wide v) { return wide(v + 1.f); };
  const auto turn = [](const auto&, wide v) { return wide(v + 1.f); };
  const auto same = [](const matrix& v) { return v; };
  const auto step = [](vec c, tensor<float, dims{3}> row) { return std::pair{c, row}; };
  const auto on = [](const auto& v) { return sum(v) > 0.f; };
  const matrix x = ones<float>(3, 65);
  const auto names = [](int line, auto&& call) {
    const auto text = error_of(call);
    CHECK_MESSAGE(contains(text, std::string("(at ") + __FILE__ + ":" + std::to_string(line) + ")"), text);
  };
  names(__LINE__, [&] { compile(f)(x); });
  names(__LINE__, [&] { compile([](const wide& v) { return sum(v); })(x); });
  names(__LINE__, [&] { compile(total)(model(), x); });
  names(__LINE__, [&] { compile(f).precompile(spec<matrix>{{3, 65}}); });
  names(__LINE__, [&] { grad(f)(x); });
  names(__LINE__, [&] { value_and_grad(f)(x); });
  names(__LINE__, [&] { compile(grad(f))(x); });
  names(__LINE__, [&] { trace(f)(x); });
  names(__LINE__, [&] { explain(f)(x); });
  names(__LINE__, [&] { verify(f)(x); });
  names(__LINE__, [&] { disable(f)(x); });
  names(__LINE__, [&] { autocast<bf16>(f)(x); });
  for (const auto now : {stance::eager, stance::normal}) {
    const stance_scope scope(now);
    names(__LINE__, [&] { compile(f)(x); });
    names(__LINE__, [&] { compile([&](vec c, matrix v) { return scan(step, c, v); })(vec{1}, x); });
    names(__LINE__, [&] { compile([&](matrix v) { return fori_loop(0, 3, turn, v); })(x); });
    names(__LINE__, [&] { compile([&](matrix v) { return while_loop(on, next, v); })(x); });
    names(__LINE__, [&] { compile([&](matrix v) { return cond(sum(v) > 0.f, next, same, v); })(x); });
  }
}

TEST_CASE("donated rvalues lend their memory; lvalues and shared tensors keep it") {
  const auto minus = [](block p, vec g) { return tree_map([&](const auto& x) { return x - g; }, p); };
  const auto step = compile(minus, {.donate = {0}});
  block p{vec{1, 2, 3}, {vec{4, 5, 6}}, vec{7, 8, 9}};
  const vec g{1, 1, 1};
  const vec shared = *p.bias;
  const block kept = p;
  const block q = step(p, g);
  CHECK(p.w.to_vector() == floats{1, 2, 3});
  CHECK(q.w.to_vector() == floats{0, 1, 2});
  const block r = step(std::move(p), g);
  CHECK(r.more[0].to_vector() == floats{3, 4, 5});
  CHECK(kept.w.to_vector() == floats{1, 2, 3});
  CHECK(shared.to_vector() == floats{7, 8, 9});
  block s = r;
  for (int i = 0; i < 3; ++i) s = step(std::move(s), g);
  CHECK(s.w.to_vector() == floats{-3, -2, -1});
  const float* const memory = s.w.data();
  s = step(std::move(s), g);
  CHECK(s.w.data() == memory);
  const block t = step(s, g);
  CHECK(t.w.data() != memory);
  CHECK(s.w.to_vector() == floats{-4, -3, -2});
  CHECK(r.w.to_vector() == floats{0, 1, 2});
}

TEST_CASE("threads: the first call traces once, all get their own answer") {
  std::atomic<int> traces{0};
  const auto f = compile([&](vec x, const std::vector<vec>& more) {
    ++traces;
    return std::pair{x * 2.f, x + more[0]};
  });
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const float v = static_cast<float>(t * 100 + i);
        const auto [twice, sum] = f(vec{v, v}, std::vector{vec{1, 2}});
        wrong += twice.to_vector() != floats{2 * v, 2 * v} || sum.to_vector() != floats{v + 1, v + 2};
      }
    });
  for (auto& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(traces == 1);
  CHECK(f.specialisations() == 1);
}

TEST_CASE("many leaves of run-time number") {
  std::vector<vec> many;
  for (int i = 0; i < 100; ++i) many.push_back(vec{float(i)});
  const auto f = compile([](const std::vector<vec>& all) {
    std::vector<vec> out;
    for (const auto& x : all) out.push_back(x + 1.f);
    return out;
  });
  for (int call = 0; call < 2; ++call) {
    const auto out = f(many);
    REQUIRE(out.size() == 100);
    CHECK(out[99].item() == 100);
  }
  CHECK(f(std::vector<vec>{}).empty());
  CHECK(f.specialisations() == 2);
}

TEST_CASE("common names are the user's under using namespace sinter") {
  struct model {
    tensor<float, 1> w;
    kind how = kind::linear;
  };
  const auto f = compile([](const model& m) { return m.w * (m.how == kind::cubic ? 4.f : 1.f); });
  CHECK(f(model{{2, 3}, kind::cubic}).to_vector() == std::vector<float>{8, 12});
  CHECK(f(model{{2, 3}, kind::linear}).to_vector() == std::vector<float>{2, 3});
  CHECK(std::is_empty_v<name> + std::is_empty_v<dispatch> + std::is_empty_v<custom> + std::is_empty_v<callback> == 4);
}
