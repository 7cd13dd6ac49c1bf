// Which calls are compiled and which are answered: numbers, limits and what they say, stances, precompile, threads.
#include "../stderr_text.hpp"
#include "../texts.hpp"
#include "support.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

template <>
inline constexpr bool sinter::is_value<std::chrono::seconds> = true;

namespace {

using namespace sinter;
using namespace support;
using texts::contains;
using texts::error_of;

}  // namespace

TEST_CASE("a floating argument is read at each call") {
  int traces = 0;
  const auto step = compile([&](vec x, auto rate) {
    ++traces;
    return x - rate * 2 * x;
  });
  for (const float rate : {0.5f, 0.25f, 2.f, -1.f})
    CHECK(step(vec{1, 2}, rate).to_vector() == floats{1 - 2 * rate, 2 - 4 * rate});
  CHECK(traces == 1);
  CHECK(step.specialisations() == 1);
  // The types of C++ numbers are types of arguments.
  step(vec{1}, 1.);
  CHECK(step.specialisations() == 2);
}

TEST_CASE("a number takes the dtype of the tensor beside it, and computes in its own") {
  const auto f = compile([](auto x, auto a, auto b) { return x * (a + b) + where(x > a, x, b); });
  CHECK(f(tensor<double, 1>{1, 2}, 1.5f, 0.25).to_vector() == std::vector<double>{1.75 + 0.25, 3.5 + 2});
  CHECK(f(vec{1, 2}, 1.5f, 0.25).to_vector() == floats{1.75 + 0.25, 3.5 + 2});
  CHECK(f(tensor<f16, 1>{f16(1.f)}, f16(1.5f), 0.25f).to_vector()[0] == f16(2.f));
  // In double, and rounded once.
  const auto third = compile([](vec x, auto a) { return x * (a / 3); });
  CHECK(third(vec{3}, 1.).item() == 3 * static_cast<float>(1. / 3));
  CHECK(third(vec{3}, 1.f).item() == 3 * (1.f / 3));
}

TEST_CASE("a number is a rank-0 tensor to functions, derivatives, trees and results") {
  const auto f = compile([](vec x, auto a) {
    const tensor<float, 0> t = a;
    return std::tuple{sum(x) * exp(a), t, tree_map([](auto y) { return y * 2; }, std::tuple{a, x})};
  });
  const auto [s, t, m] = f(vec{1, 2}, 0.f);
  CHECK(s.item() == 3);
  CHECK(t.item() == 0);
  CHECK(std::get<1>(m).to_vector() == floats{2, 4});
  CHECK(std::get<0>(std::get<2>(f(vec{1, 2}, 3.f))).item() == 6);
  CHECK(f.specialisations() == 1);

  const auto slope =
      compile([](vec x, auto a) { return grad<1>([](auto x, auto b) { return sum(x * b * b); })(x, a); });
  CHECK(slope(vec{1, 2}, 3.f).item() == 18);
  CHECK(slope(vec{1, 2}, 5.f).item() == 30);
  CHECK(slope.specialisations() == 1);
  // A number that does not vary takes the dtype of the tensor beside it, in grad too.
  const auto weak = compile([](auto x, auto a) { return grad([](auto x, auto b) { return sum(x * b * x); })(x, a); });
  CHECK(weak(tensor<double, 1>{1, 2}, 3.f).to_vector() == std::vector<double>{6, 12});
  CHECK(weak(tensor<double, 1>{1, 2}, 4.f).to_vector() == std::vector<double>{8, 16});
  CHECK(weak.specialisations() == 1);

  const auto typed = compile([](vec x, tensor<float, 0> a) { return x * a; });
  typed(vec{1}, 1.f);
  CHECK(typed(vec{1, 2}.contiguous(), 4.f).to_vector() == floats{4, 8});
}

TEST_CASE("a tensor is compared with a number from both sides") {
  const auto f = compile([](vec x, auto r) {
    return std::tuple{tensor<bool, 1>(x == r), tensor<bool, 1>(x != r), tensor<bool, 1>(r == x),
                      tensor<bool, 1>(x < r)};
  });
  for (const float r : {2.f, 3.f}) {
    const auto [same, other, reversed, less] = f(vec{1, 2, 3}, r);
    CHECK(same.to_vector() == (vec{1, 2, 3} == r).eval().to_vector());
    CHECK(other.to_vector() == (vec{1, 2, 3} != r).eval().to_vector());
    CHECK(reversed.to_vector() == same.to_vector());
    CHECK(less.to_vector() == (vec{1, 2, 3} < r).eval().to_vector());
  }
  CHECK(f.specialisations() == 1);
}

TEST_CASE("all operators of numbers give what C++ gives") {
  const auto f = compile([](auto a, auto b) {
    auto c = a;
    c += b;
    c *= 2;
    c -= 1;
    c /= b;
    const tensor<bool, 0> less = a<b, at_least = a >= b, same = a == b, other = 1 != a, more = a> 2, most = b <= 4;
    const tensor<double, 0> sum = a + b, negative = -a, quotient = 1 / b, kept = +c;
    return std::tuple{sum, negative, quotient, kept, less, at_least, same, other, more, most};
  });
  for (const auto& [a, b] : {std::pair{3.f, 4.}, std::pair{5.f, 0.5}}) {
    const auto [sum, negative, quotient, kept, less, at_least, same, other, more, most] = f(a, b);
    CHECK(sum.item() == a + b);
    CHECK(negative.item() == -a);
    CHECK(quotient.item() == 1 / b);
    CHECK(kept.item() == doctest::Approx(((a + b) * 2 - 1) / b));
    CHECK(less.item() == (a < b));
    CHECK(at_least.item() == (a >= b));
    CHECK(same.item() == (a == b));
    CHECK(other.item() == (1 != a));
    CHECK(more.item() == (a > 2));
    CHECK(most.item() == (b <= 4));
  }
  CHECK(f.specialisations() == 1);
}

TEST_CASE("C++ numbers that shape the graph specialise by value, and a warning says so and names the remedy once") {
  const auto longer = [](const vec& x, float by) { return pad(x, {{0, static_cast<int>(by)}}, 7.f); };
  const auto padded = compile([&](vec x, float by) { return longer(x, by); }, {.name = "padded"});
  std::string said = stderr_text([&] { CHECK(padded(vec{1}, 2.f).to_vector() == floats{1, 7, 7}); });
  CHECK(said.empty());
  said = stderr_text([&] {
    for (const float by : {3.f, 4.f, 3.f}) CHECK(padded(vec{1}, by).size(0) == static_cast<int>(by) + 1);
  });
  CHECK(padded.specialisations() == 3);
  CHECK(contains(said, "padded: argument 1 becomes a C++ number"));
  CHECK(contains(said, "take it as auto or as tensor<float, 0>"));
  CHECK(said.find("[sinter:warning]") == said.rfind("[sinter:warning]"));
  CHECK(contains(padded.explain().text(), "by value"));

  const auto in_tree = compile([&](const settings& s) { return longer(s.w, s.rate); }, {.name = "in_tree"});
  said = stderr_text([&] {
    for (const float rate : {1.f, 2.f, 3.f})
      CHECK(in_tree(settings{vec{1}, rate}).size(0) == static_cast<int>(rate) + 1);
  });
  CHECK(contains(said, "in_tree: argument 0" + field("rate") + " is a C++ number within a tree"));
  CHECK(contains(said, "make it a tensor<float, 0>"));
}

TEST_CASE("a number of a trace that ended is refused") {
  std::shared_ptr<number<float>> kept;
  const auto f = compile([&](vec x, auto a) {
    if constexpr (std::is_same_v<decltype(a), number<float>>) kept = std::make_shared<number<float>>(a);
    return x * a;
  });
  f(vec{1}, 2.f);
  REQUIRE(kept);
  CHECK(contains(error_of([&] { const tensor<float, 0> t = *kept; }), "trace"));
  CHECK(contains(error_of([&] { static_cast<void>(*kept + 1); }), "trace"));
}

TEST_CASE("more than 64 numbers still give right answers") {
  // A tensor at each step: an expression of 70 operands takes long to compile.
  const auto f = [](auto... x) {
    vec y{1};
    ((y = y * x), ...);
    return y;
  };
  const auto g = compile([f](auto a, auto b) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) { return f(((void)I, a)..., b); }
    (std::make_index_sequence<70>{});
  });
  CHECK(g(1.f, 3.f).item() == 3);
  const auto wide = compile(f);
  const auto call = [&]<std::size_t... I>(std::index_sequence<I...>, float last) {
    return wide(((void)I, 1.f)..., last);
  };
  CHECK(call(std::make_index_sequence<69>{}, 2.f).item() == 2);
  CHECK(call(std::make_index_sequence<69>{}, 5.f).item() == 5);
}

TEST_CASE("values of classes that are their bytes are compared by them") {
  const auto f = compile([](vec x, std::chrono::seconds t) { return x * static_cast<float>(t.count()); });
  CHECK(f(vec{1}, std::chrono::seconds(2)).item() == 2);
  CHECK(f(vec{1}, std::chrono::seconds(3)).item() == 3);
  CHECK(f(vec{1}, std::chrono::seconds(2)).item() == 2);
  CHECK(f.specialisations() == 2);
}

TEST_CASE("past the limit calls are interpreted, and one warning names the guard and its values") {
  const auto f = compile([](vec x, int n) { return x * n; }, {.recompile_limit = 2, .name = "limited"});
  const std::string said = stderr_text([&] {
    for (int n = 1; n < 6; ++n) CHECK(f(vec{1, 2}, n).to_vector() == floats{float(n), float(2 * n)});
  });
  CHECK(contains(said, "[sinter:warning] limited: "));
  CHECK(contains(said, "as many as .recompile_limit allows; the guard that kept failing: argument 1: 1, 2, 3"));
  CHECK(said.find("warning") == said.rfind("warning"));
  CHECK(f.report().backend == "reference");
  // Two compiled, and at most as many interpreted.
  CHECK(f.specialisations() == 4);
  f(vec{1, 2}, 2);
  CHECK(f.report().backend != "reference");
  f(vec{1, 2}, 5);
  CHECK(f.report().backend == "reference");
}

TEST_CASE("past the limit each function says so, with what helps it, and its report says why it is interpreted") {
  const auto first = compile([](vec x, int n) { return x * n; }, {.recompile_limit = 2, .name = "namesake"});
  const auto second = compile([](vec x, int n) { return x + n; }, {.recompile_limit = 2, .name = "namesake"});
  const auto evicting = compile([](vec x, int n) { return x + n; },
                                {.recompile_limit = 2, .on_limit = on_limit::evict, .name = "evicting"});
  const auto many = [](const auto& f) {
    return stderr_text([&] {
      for (int n = 1; n < 5; ++n) f(vec{1, 2}, n);
    });
  };
  for (const auto& said : {many(first), many(second)}) {
    CHECK(contains(said, "namesake: there are 2 specialisations"));
    CHECK(contains(said, "raise .recompile_limit, or say .on_limit = on_limit::evict"));
    CHECK(contains(said, "dispatch_test.cpp:"));
  }
  CHECK(contains(first.report().problem, "the guard that kept failing: argument 1"));
  CHECK(contains(first.explain().text(), "no kernels: there are 2 specialisations"));
  first(vec{1, 2}, 1);
  CHECK(first.report().problem.empty());
  const std::string said = many(evicting);
  CHECK(contains(said, "or raise .recompile_limit (at"));
  CHECK(!contains(said, "on_limit::evict"));
  // Extents have open ones in their place, which is said too.
  const auto open = compile([](vec x) { return x * 2; }, {.recompile_limit = 1, .name = "open"});
  const std::string of_open = stderr_text([&] {
    for (int n = 3; n < 7; ++n) open(zeros<float>(n));
  });
  CHECK(contains(of_open, "One with open extents takes the place"));
  CHECK(open.report().backend == "cpu");
}

TEST_CASE("past the limit there may be an error instead, or the least recently used one goes") {
  const auto f = compile([](vec x, int n) { return x * n; },
                         {.recompile_limit = 2, .on_limit = on_limit::error, .name = "strict"});
  f(vec{1}, 1);
  f(vec{1}, 2);
  const std::string said = error_of([&] { f(vec{1}, 3); });
  CHECK(contains(said, "[strict] there are 2 specialisations"));
  CHECK(contains(said, "argument 1: 1, 2, 3"));
  CHECK(contains(said, "dispatch_test.cpp"));
  CHECK(f(vec{1}, 2).item() == 2);

  int traces = 0;
  const auto g = compile(
      [&](vec x, int n) {
        ++traces;
        return x * n;
      },
      {.recompile_limit = 2, .on_limit = on_limit::evict});
  for (const int n : {1, 2, 1, 3, 1}) g(vec{1}, n);
  CHECK(traces == 3);
  CHECK(g.specialisations() == 2);
  CHECK(g(vec{1}, 2).item() == 2);  // was dropped
  CHECK(traces == 4);
}

TEST_CASE("specialisations are bounded by what they hold, too") {
  const auto f = compile([](vec x, int n) { return exp(x) * n; }, {.recompile_limit = 100, .recompile_bytes = 8000});
  const std::string said = stderr_text([&] {
    for (int n = 1; n < 12; ++n) CHECK(f(vec{0}, n).item() == n);
  });
  CHECK_MESSAGE(contains(said, "take more than the 8000 bytes of .recompile_bytes"), said);
  CHECK(said.find("warning") == said.rfind("warning"));
  CHECK(f.specialisations() < 11);
  CHECK(f.specialisations() >= 1);
}

TEST_CASE("the limit is for arguments of the same types") {
  const auto f = compile([](auto x) { return x + x; },
                         {.dynamic = dynamic::no, .recompile_limit = 1, .on_limit = on_limit::error});
  f(vec{1});
  f(tensor<double, 1>{1});
  f(tensor<std::int32_t, 1>{1});
  CHECK(contains(error_of([&] {
                   f(tensor<std::int32_t, 1>(slice<0>(tensor<std::int32_t, 1>{1, 2, 3}, 0, 3, 2)));
                 }),
                 "specialisations"));
}

TEST_CASE("functions that one line makes share a limit beyond their first specialisation") {
  const auto make = [] {
    return compile([](vec x, int n) { return x * n; },
                   {.backend = "reference", .on_limit = on_limit::error, .name = "made"});
  };
  std::vector<decltype(make())> made;
  const auto fill = [&] {
    for (int i = 0; i < 40; ++i) {
      made.push_back(make());
      for (int n = 0; n < 3; ++n) made.back()(vec{1}, n);
    }
  };
  CHECK(contains(error_of(fill), "this line of the program has made 64"));
  CHECK(made.size() == 33);
  CHECK(made.back()(vec{1}, 0).item() == 0);
  made.clear();  // their specialisations no longer count
  const auto again = make();
  for (int n = 0; n < 3; ++n) again(vec{1}, n);
  CHECK(again.specialisations() == 3);
}

TEST_CASE("logs say which guard failed, with values") {
  setenv("SINTER_LOGS", "recompiles,guards", 1);
  const auto f = compile([](const settings& s, vec x) { return s.w * x; }, {.dynamic = dynamic::no, .name = "logged"});
  const std::string said = stderr_text([&] {
    f(settings{ones(3)}, ones(3));
    f(settings{ones(4)}, ones(4));
    f(settings{slice<0>(ones(8), 0, 8, 2)}, ones(4));
  });
  unsetenv("SINTER_LOGS");
  CHECK(contains(said, "logged: the first call with arguments of these types"));
  CHECK(contains(said, "logged: argument 0" + field("w") + " axis 0 is 4, was 3; argument 1 axis 0 is 4, was 3"));
  CHECK(contains(said, "logged: the stride of argument 0" + field("w") + " axis 0 is 2, was 1"));
  CHECK(contains(said, "tensor 0: f32 (4), strides 2"));
}

TEST_CASE("a refused call leaves what answered before as it was, also where the function reads values") {
  const auto read = [](vec x) {
    const float s = sum(x).item();
    return vec(x * s);
  };
  const auto f = compile(read), g = compile(read);
  f(vec{1, 2, 3});
  {
    const stance_scope strict(stance::fail_on_recompile);
    CHECK(f(vec{1, 2, 3}).to_vector() == floats{6, 12, 18});
    CHECK(contains(error_of([&] { f(vec{1, 2, 3, 4}); }), "a stance forbids to compile"));
    CHECK(f(vec{1, 2, 3}).to_vector() == floats{6, 12, 18});
  }
  g(vec{1, 2, 3});
  {
    const stance_scope soft(stance::eager_on_recompile);
    g(vec{1, 2, 3, 4});
  }
  const stance_scope strict(stance::fail_on_recompile);
  CHECK(g(vec{1, 2, 3}).to_vector() == floats{6, 12, 18});
}

TEST_CASE("frequent extents for which the function throws anything keep the kernels they have") {
  int runs = 0;
  const auto f = compile(
      [&](vec x) {
        if (++runs == 3) throw 42;
        return x * 2;
      },
      {.hot_calls = 16, .name = "throwing"});
  f(vec{1, 2});
  const std::string said = stderr_text([&] {
    for (int i = 0; i < 100; ++i) CHECK(f(vec{1, 2, 3}).to_vector() == floats{2, 4, 6});
    f.wait_ready();
  });
  CHECK(runs == 3);
  CHECK(contains(said, "frequent extents get no kernels of their own: something other than a std::exception"));
}

TEST_CASE("stances") {
  int runs = 0;
  const auto f = compile(
      [&](vec x, auto by) {
        ++runs;
        return x * by;
      },
      {.dynamic = dynamic::no, .name = "posed"});
  {
    const stance_scope eager(stance::eager);
    CHECK(f(vec{1, 2}, 2.f).to_vector() == floats{2, 4});
    CHECK(f(vec{1, 2}, 2.f).to_vector() == floats{2, 4});
    CHECK(runs == 2);
    CHECK(f.specialisations() == 0);
    {
      const stance_scope strict(stance::fail_on_recompile);
      CHECK(contains(error_of([&] { f(vec{1, 2}, 2.f); }), "[posed] a stance forbids to compile"));
    }
    f(vec{1, 2}, 2.f);
    CHECK(runs == 3);
  }
  f(vec{1, 2}, 2.f);
  CHECK(runs == 4);
  {
    const stance_scope strict(stance::fail_on_recompile);
    CHECK(f(vec{3, 2}, 5.f).to_vector() == floats{15, 10});
    CHECK(contains(error_of([&] { f(vec{1, 2, 3}, 2.f); }), "argument 0 axis 0 is 3, was 2"));
  }
  {
    const stance_scope soft(stance::eager_on_recompile);
    CHECK(f(vec{3, 2}, 5.f).to_vector() == floats{15, 10});
    CHECK(runs == 4);
    CHECK(f(vec{1, 2, 3}, 2.f).to_vector() == floats{2, 4, 6});
    CHECK(runs == 5);
    CHECK(f.specialisations() == 1);
    std::thread([&] { f(vec{1, 2, 3}, 2.f); }).join();  // the stance is this thread's
    CHECK(f.specialisations() == 2);
  }
}

TEST_CASE("precompile reads no elements, and the call that follows compiles nothing") {
  int traces = 0;
  const auto f = compile([&](const settings& s, vec x, auto by, int n) {
    ++traces;
    return s.w * x * by * n;
  });
  f.precompile(settings{ones(3), 1.5f}, spec<vec>{{3}}, 0.f, 2);
  CHECK(traces == 1);
  CHECK(f.specialisations() == 1);
  const stance_scope strict(stance::fail_on_recompile);
  CHECK(f(settings{vec{1, 2, 3}, 1.5f}, vec{1, 1, 2}, 2.f, 2).to_vector() == floats{4, 8, 24});
  CHECK(traces == 1);
}

TEST_CASE("precompile is a free function, too") {
  const auto f = compile([](vec x, int n) { return x * n; });
  precompile(f, spec<vec>{{3}}, 2);
  CHECK(f.specialisations() == 1);
  const stance_scope strict(stance::fail_on_recompile);
  CHECK(f(vec{1, 2, 3}, 2).to_vector() == floats{2, 4, 6});
}

TEST_CASE("16 threads meet at the first call: one trace, right answers") {
  std::atomic<int> traces{0};
  const auto f = compile([&](vec x, int n) {
    ++traces;
    return exp(x * 0) * n + x;
  });
  std::atomic<int> ready{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t)
    threads.emplace_back([&, t] {
      ++ready;
      while (ready < 16) std::this_thread::yield();
      for (int i = 0; i < 50; ++i) wrong += f(vec{float(t), 1}, 7).to_vector() != floats{float(t + 7), 8};
    });
  for (auto& t : threads) t.join();
  CHECK(traces == 1);
  CHECK(wrong == 0);
}

TEST_CASE("threads that make and drop specialisations disturb none that call") {
  const auto f = compile([](vec x, int n) { return x * n; },
                         {.backend = "reference", .recompile_limit = 3, .on_limit = on_limit::evict});
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 60; ++i) {
        const int n = t < 4 ? t % 2 : 2 + (i * 7 + t) % 9;
        wrong += f(vec{2, 3}, n).to_vector() != floats{float(2 * n), float(3 * n)};
        if (i % 20 == 0) static_cast<void>(f.report());
      }
    });
  for (auto& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(f.specialisations() == 3);
}
