// Graph breaks: a compiled function that reads values goes on with them, and does what it says at every call.
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../texts.hpp"

using namespace sinter;
using texts::contains;
using texts::error_of;

namespace breaking {
struct state {
  tensor<float, 1> x;
  tensor<float, 0> norm;
  int steps = 0;
};
}  // namespace breaking

using breaking::state;

namespace {

using vec = tensor<float, 1>;
using floats = std::vector<float>;

/// "breaks_test.cpp:LINE", as errors and reports name a line of this file.
std::string line(int n) { return "breaks_test.cpp:" + std::to_string(n); }

/// The reasons and lines of a report's breaks.
std::vector<std::pair<std::string, int>> breaks_of(const auto& f) {
  std::vector<std::pair<std::string, int>> out;
  for (const auto& b : f.report().breaks) out.emplace_back(b.why, b.where.line);
  return out;
}
using break_list = std::vector<std::pair<std::string, int>>;

}  // namespace

TEST_CASE("each way of reading a traced value gives the value, at every call") {
  int runs = 0;
  const int top = __LINE__;
  const auto f = compile([&](tensor<float, 2> x) {
    ++runs;
    const tensor<float, 2> y = x * 2.f;
    const float total = sum(y).item();
    const std::vector<float> rows = sum(y, axis<1>).to_vector();
    const float corner = y(1, 0);
    const float first = *y.data();
    std::ostringstream text;
    text << y;
    const bool positive = static_cast<bool>(sum(y) > 0.f);
    return std::tuple{y + total, rows, corner, first, static_cast<int>(text.str().size()), positive};
  });
  for (const float k : {1.f, -1.f, 3.f}) {
    const tensor<float, 2> x{{k, 2 * k}, {3 * k, 4 * k}};
    const auto [y, rows, corner, first, length, positive] = f(x);
    CHECK(y.to_vector() == floats{22 * k, 24 * k, 26 * k, 28 * k});
    CHECK(rows == floats{6 * k, 14 * k});
    CHECK(corner == 6 * k);
    CHECK(first == 2 * k);
    CHECK(length == static_cast<int>(to_string(x * 2.f).size()));
    CHECK(positive == (k > 0));
  }
  CHECK(runs == 3);
  CHECK(f.specialisations() == 1);
  // Printing has no line of its own: it is named by the line that made the tensor. data() found the elements copied.
  CHECK(breaks_of(f) == break_list{{"item", top + 4},
                                   {"to_vector", top + 5},
                                   {"element access", top + 6},
                                   {"printing", top + 3},
                                   {"if", top + 10}});
}

TEST_CASE("a tensor<bool, 0> decides, eagerly too") {
  const vec x{1, -2};
  CHECK(static_cast<bool>(any(x > 0.f)));
  CHECK(!static_cast<bool>(all(x > 0.f)));
  const tensor<bool, 0> yes = true;
  int taken = 0;
  if (yes) taken = 1;
  while (sum(x) > 0.f) taken = 2;
  if (!yes || !all(x < 9.f)) taken = 3;
  if (!(sum(x) > 0.f)) ++taken;
  CHECK(taken == 2);
  const tensor<bool, 0> no = !any(x > 0.f);
  CHECK(!static_cast<bool>(no));
  CHECK((any(x > 0.f) && any(x < 0.f) ? 1 : 0) == 1);
  CHECK(contains(error_of([] { static_cast<void>(static_cast<bool>(tensor<bool, 0>())); }), "[if]"));
}

TEST_CASE("both branches are right, and each is compiled when it is first taken") {
  int ups = 0, downs = 0;
  const auto f = compile([&](vec x) -> vec {
    if (!(sum(x) > 0.f)) {
      ++downs;
      return x * x - 7.f;
    }
    ++ups;
    return exp(x) + 1.f;
  });
  CHECK(f(vec{-1, -2}).to_vector() == floats{-6, -3});
  CHECK(f(vec{0, 0}).to_vector() == floats{-7, -7});
  CHECK(ups == 0);
  CHECK(downs == 2);
  CHECK(f(vec{0, 1}).to_vector()[0] == 2);
  CHECK(f(vec{-3, 1}).to_vector() == floats{2, -6});
  CHECK(ups == 1);
  CHECK(downs == 3);
  CHECK(f.specialisations() == 1);
}

TEST_CASE("a loop that ends when a value says so") {
  int runs = 0;
  const auto f = compile([&](vec x) {
    ++runs;
    int steps = 0;
    while (norm(x).item() > 1.f) {
      x = x * 0.5f;
      ++steps;
    }
    return std::pair{x, steps};
  });
  for (int call = 0; call < 2; ++call) {
    const auto [x, steps] = f(vec{3, 4});
    CHECK(x.to_vector() == floats{0.375f, 0.5f});
    CHECK(steps == 3);
    const auto [same, none] = f(vec{0.5f, 0.5f});
    CHECK(same.to_vector() == floats{0.5f, 0.5f});
    CHECK(none == 0);
    const auto [far, many] = f(vec{3000, 4000});
    CHECK(many == 13);
    CHECK(far.to_vector()[0] == 3000.f / 8192);
  }
  CHECK(runs == 6);
  CHECK(f.report().breaks.size() == 1);
}

TEST_CASE("values stay alive across several breaks; expressions, views and copies too") {
  const auto f = compile([](tensor<float, 2> x, vec b) {
    const tensor<float, 2> doubled = x * 2.f;
    const auto lazy = doubled + b;  // an expression, evaluated after two breaks
    const auto column = transpose(doubled);
    const tensor<float, 2> copy = doubled;
    const float first = sum(doubled).item();
    const vec mid = sum(copy, axis<0>) + first;
    const float second = max(mid).item();
    const float third = mid(1);
    return std::tuple{tensor<float, 2>(lazy + second), column + third, copy, mid, x};
  });
  const auto expected = [](const tensor<float, 2>& x, const vec& b) {
    const tensor<float, 2> doubled = x * 2.f;
    const vec mid = sum(doubled, axis<0>) + sum(doubled).item();
    return std::tuple{tensor<float, 2>(doubled + b + max(mid).item()), tensor<float, 2>(transpose(doubled) + mid(1)),
                      doubled, mid, x};
  };
  for (const float k : {1.f, 5.f}) {
    const tensor<float, 2> x{{k, 2}, {3, 4 * k}, {5, 6}};
    const vec b{10, 20 * k};
    const auto got = f(x, b);
    const auto want = expected(x, b);
    CHECK(std::get<0>(got).to_vector() == std::get<0>(want).to_vector());
    CHECK(std::get<1>(got).to_vector() == std::get<1>(want).to_vector());
    CHECK(std::get<2>(got).to_vector() == std::get<2>(want).to_vector());
    CHECK(std::get<3>(got).to_vector() == std::get<3>(want).to_vector());
    CHECK(std::get<4>(got).to_vector() == x.to_vector());
  }
}

TEST_CASE("what no tensor refers to any more is not kept") {
  const auto f = compile([](vec x) {
    {
      const vec unused = exp(x) * 3.f;
      const vec replaced = sin(x);
    }
    vec y = x + 1.f;
    y = y * 2.f;
    const float total = sum(y).item();
    return y * total;
  });
  CHECK(f(vec{1, 2}).to_vector() == floats{40, 60});
  // The first segment gives the sum and y: no exp, no sin, no x + 1.
  CHECK(f.report().kernels <= 3);
  CHECK(f(vec{2, 3}).to_vector() == floats{84, 112});
}

TEST_CASE("results have memory of their own") {
  const auto f = compile([](vec x) {
    const vec y = x + 1.f;
    const bool more = static_cast<bool>(sum(y) > 0.f);
    return std::tuple{y, y, x, more};
  });
  const vec x{1, 2};
  const auto [a, b, same, more] = f(x);
  CHECK(a.to_vector() == floats{2, 3});
  CHECK(b.to_vector() == floats{2, 3});
  CHECK(same.to_vector() == floats{1, 2});
  CHECK(a.data() != b.data());
  CHECK(same.data() != x.data());
  CHECK(more);
}

TEST_CASE("structs in and out, with numbers that were read") {
  const auto f = compile([](state s) {
    const tensor<float, 0> n = norm(s.x);
    state out{s.x, n, s.steps};
    if (n.item() > 1.f) out.x = s.x / n;
    out.steps = s.steps + static_cast<int>(n.item());
    return std::pair{out, std::vector{out.x, vec(out.x * 2.f)}};
  });
  const auto [s, list] = f(state{vec{3, 4}, 0.f, 10});
  CHECK(s.x.to_vector() == floats{0.6f, 0.8f});
  CHECK(s.norm.item() == 5);
  CHECK(s.steps == 15);
  CHECK(list[1].to_vector() == floats{1.2f, 1.6f});
  CHECK(f(state{vec{0, 0.5f}, 0.f, 10}).first.x.to_vector() == floats{0, 0.5f});
}

TEST_CASE("side effects happen at every call, once, in their order") {
  std::vector<std::string> seen;
  const auto f = compile([&](vec x, int n) {
    seen.emplace_back("begin");
    for (int i = 0; i < n; ++i) {
      x = x + 1.f;
      seen.push_back(std::to_string(static_cast<int>(sum(x).item())));
    }
    seen.emplace_back("end");
    return x;
  });
  for (int call = 0; call < 3; ++call) {
    seen.clear();
    CHECK(f(vec{1, 2}, 2).to_vector() == floats{3, 4});
    CHECK(seen == std::vector<std::string>{"begin", "5", "7", "end"});
  }
  seen.clear();
  f(vec{1, 2}, 0);  // other numbers, and no break
  f(vec{1, 2}, 0);
  CHECK(seen.size() == 2);
}

TEST_CASE("a function without results, and one without arguments") {
  float total = 0;
  const auto f = compile([&](vec x) { total += sum(x * x).item(); });
  f(vec{1, 2});
  f(vec{3, 4});
  CHECK(total == 30);
  int runs = 0;
  const auto g = compile([&] {
    ++runs;
    const auto x = ones<float>(3) * 2.f;
    return x + sum(x).item();
  });
  CHECK(g().to_vector() == floats{8, 8, 8});
  CHECK(g().to_vector() == floats{8, 8, 8});
  CHECK(runs == 2);
}

TEST_CASE("within grad the value is read and the derivatives are those of the branch taken") {
  const auto loss = [](vec x) {
    const auto s = sum(x * x);
    if (s.item() > 10.f) return tensor<float, 0>(s * 3.f);
    return tensor<float, 0>(s * x(0));
  };
  const auto step = compile([&](vec x) { return value_and_grad(loss)(x * 1.f); });
  for (int call = 0; call < 2; ++call) {
    const auto [large, steep] = step(vec{3, 4});
    CHECK(large.item() == 75);
    CHECK(steep.to_vector() == floats{18, 24});
    const auto [small, flat] = step(vec{1, 2});
    CHECK(small.item() == 5);
    CHECK(flat.to_vector() == floats{2, 4});  // x(0) is a number: no derivative flows through it
  }
  // Eagerly: the graph is made at each call anyway.
  CHECK(grad(loss)(vec{3, 4}).to_vector() == floats{18, 24});
  CHECK(grad(loss)(vec{1, 2}).to_vector() == floats{2, 4});
  // A break before grad and one after it.
  const auto around = compile([&](vec x) {
    const float before = sum(x).item();
    auto [l, g] = value_and_grad(loss)(x * before);
    return std::pair{g * 1.f, l.item()};
  });
  const auto [g, l] = around(vec{1, 1});
  CHECK(g.to_vector() == floats{8, 8});
  CHECK(l == 16);
  // Second derivatives.
  const auto twice = compile([](tensor<float, 0> x) {
    return grad([](tensor<float, 0> y) {
      return grad(
          [](tensor<float, 0> z) { return z.item() > 0.f ? tensor<float, 0>(z * z * z) : tensor<float, 0>(z * z); })(y);
    })(x);
  });
  CHECK(twice(tensor<float, 0>(2.f)).item() == 12);
  CHECK(twice(tensor<float, 0>(-2.f)).item() == 2);
}

TEST_CASE("fullgraph: a break is an error that names the line") {
  const options whole{.fullgraph = true, .name = "step"};
  const auto item = error_of([&] { compile([](vec x) { return x * sum(x).item(); }, whole)(vec{1}); });
  CHECK(contains(item, line(__LINE__ - 1)));
  CHECK(contains(item, "[step] options.fullgraph is set, but item needs elements at each call"));
  CHECK(contains(item, "where("));
  const auto decision = error_of([&] { compile([](vec x) { return any(x > 0.f) ? x : x + 1.f; }, whole)(vec{1}); });
  CHECK(contains(decision, "but if needs"));
  CHECK(contains(decision, line(__LINE__ - 2)));
  CHECK(contains(error_of([&] { compile([](vec x) { return to_string(x).size(); }, whole)(vec{1}); }), "printing"));
  CHECK(contains(error_of([&] { compile([](vec x) { return x * x(0); }, whole)(vec{1}); }), line(__LINE__)));
  CHECK(contains(error_of([&] { compile([](vec x) { return disable([](vec y) { return y; })(x); }, whole)(vec{1}); }),
                 "disable"));
  // Where it is whole, nothing changes; inside another function it still holds.
  const auto fine = compile([](vec x) { return x + 1.f; }, whole);
  CHECK(fine(vec{1}).item() == 2);
  const auto inner = compile([](vec x) { return x * sum(x).item(); }, whole);
  const auto outer = compile([&](vec x) { return inner(x) + x.item(); });
  CHECK(contains(error_of([&] { outer(vec{1}); }), "fullgraph"));
}

TEST_CASE("disable runs a function as it is, on what was computed") {
  std::vector<float> seen;
  int traced = 0;
  const auto f = compile([&](vec x) {
    const vec y = x * 2.f;
    const auto [z, n] = disable([&](const vec& v, int k) {
      traced += v.is_traced();
      for (const float e : v.to_vector()) seen.push_back(e);
      vec w = v + static_cast<float>(k);
      w.data()[0] = 100;  // memory of its own
      return std::pair{w, k + 1};
    })(y + 1.f, 3);
    return z * y + static_cast<float>(n);
  });
  CHECK(f(vec{1, 2}).to_vector() == floats{204, 36});
  CHECK(seen == floats{3, 5});
  CHECK(f(vec{3, 2}).to_vector() == floats{604, 36});
  CHECK(seen.size() == 4);
  CHECK(traced == 0);
  // Outside a trace it is the function.
  CHECK(disable([](vec x) { return x + 1.f; })(vec{1}).item() == 2);
  disable([](vec) {})(vec{1});
  const auto inside = [](vec x) { return sum(disable([](vec y) { return y * 2.f; })(x)); };
  const auto text = error_of([&] { compile(grad(inside))(vec{1}); });
  CHECK(contains(text, "[disable] inside grad"));
  CHECK(contains(text, line(__LINE__ - 3)));
  CHECK(contains(error_of([&] { trace(inside)(vec{1}); }), "[disable]"));
  const auto leak = compile([](vec x) { return disable([&] { return x + 1.f; })(); });
  CHECK(contains(error_of([&] { leak(vec{1}); }), "pass it as an argument"));
}

TEST_CASE("floating arguments stay numbers across breaks") {
  int runs = 0;
  const auto f = compile([&](vec x, auto rate) {
    ++runs;
    const auto half = rate * 0.5f;
    const vec y = x * rate;
    const float total = sum(y).item();
    const vec z = disable([](const vec& v, float k) { return v + k; })(y, half);
    return std::pair{z * half + total, static_cast<float>(half)};
  });
  for (const float rate : {2.f, 4.f, 6.f}) {
    const auto [z, half] = f(vec{1, 2}, rate);
    CHECK(half == rate / 2);
    CHECK(z.to_vector() == floats{1.5f * rate * half + 3 * rate, 2.5f * rate * half + 3 * rate});
  }
  CHECK(runs == 3);
  CHECK(f.specialisations() == 1);
}

TEST_CASE("a function may call itself and others across breaks") {
  const auto halve = compile([](vec x) { return max(x).item() > 1.f ? vec(x * 0.5f) : x; });
  const auto twice = compile([&](vec x) { return halve(halve(x)) + 1.f; });
  CHECK(twice(vec{8, 4}).to_vector() == floats{3, 2});
  CHECK(twice(vec{2, 1}).to_vector() == floats{2, 1.5f});
  CHECK(halve(vec{8}).item() == 4);

  struct recursion {
    static vec run(vec x) { return sum(x).item() > 1.f ? run(x * 0.5f) : x; }
  };
  CHECK(compile(recursion::run)(vec{4, 4}).to_vector() == floats{0.5f, 0.5f});

  // The function itself, compiled, from inside its first call.
  std::function<float(float)> again;
  const auto depth = compile([&](tensor<float, 0> x) {
    const float v = x.item();
    const float below = disable([&](float n) { return n > 0 ? again(n - 1) : 0.f; })(v);
    return x + below;
  });
  again = [&](float n) { return depth(tensor<float, 0>(n)).item(); };
  CHECK(again(4) == 10);
}

TEST_CASE("a stance that forbids to compile lets known segments run") {
  const int made = __LINE__ + 1;
  const auto f = compile([](vec x) { return sum(x) > 0.f ? vec(x * 3.f) : vec(x - 11.f); });
  f(vec{1});
  const stance_scope only(stance::fail_on_recompile);
  CHECK(f(vec{2}).item() == 6);
  const std::string refused = error_of([&] { f(vec{-1}); });
  CHECK(contains(refused, "a stance forbids to compile"));
  CHECK(contains(refused, line(made)));
  CHECK(contains(error_of([&] { f(vec{1, 2}); }), "a stance forbids to compile"));
  CHECK(f(vec{3}).item() == 9);
}

TEST_CASE("what the function throws between segments passes through") {
  const auto f = compile([](vec x) {
    const vec y = x + 1.f;
    if (sum(y).item() < 0.f) throw std::runtime_error("negative");
    return y * 2.f;
  });
  CHECK_THROWS_WITH_AS(f(vec{-9}), "negative", std::runtime_error);
  CHECK(!engine::current());
  CHECK(f.specialisations() == 0);
  CHECK(f(vec{1}).item() == 4);
  CHECK_THROWS_AS(f(vec{-9}), std::runtime_error);
  CHECK(f(vec{2}).item() == 6);
}

TEST_CASE("donation never touches what the function still reads") {
  const auto f = compile(
      [](vec p, vec g) {
        const vec before = p;
        p = p - g;
        if (sum(p) > 0.f) return std::pair{p, before};
        return std::pair{vec(p * 0.f), before};
      },
      {.donate = {0}});
  vec p{5, 6};
  const auto [q, before] = f(std::move(p), vec{1, 1});
  CHECK(q.to_vector() == floats{4, 5});
  CHECK(before.to_vector() == floats{5, 6});
  const vec kept{1, 1};
  CHECK(f(kept, vec{3, 3}).first.to_vector() == floats{0, 0});
  CHECK(kept.to_vector() == floats{1, 1});
}

TEST_CASE("elements are handed out to be read: writing them is an error") {
  const auto f = compile([](vec x, bool write) {
    const vec y = x + 1.f;
    if (write) y(1) = 7;
    return y * y(0);
  });
  CHECK(f(vec{1, 2}, false).to_vector() == floats{4, 6});
  const auto text = error_of([&] { f(vec{1, 2}, true); });
  CHECK(contains(text, "copy to be read"));
  CHECK(contains(text, line(__LINE__ - 6)));
  const vec mine{1, 2};
  const auto g = compile([](vec x) {
    x.data()[0] = 9;
    return x;
  });
  CHECK(contains(error_of([&] { g(mine); }), "copy to be read"));
  CHECK(mine.to_vector() == floats{1, 2});
}

TEST_CASE("a long loop keeps no memory of the rounds that are over") {
  const auto f = compile([](tensor<float, 1> x, int rounds) {
    for (int i = 0; i < rounds; ++i) x = x + x(0) * 0.f + 1.f;
    return x;
  });
  constexpr std::int64_t many = 1 << 16;
  const auto resident = [] {
    long pages = 0, all = 0;
    std::FILE* const file = std::fopen("/proc/self/statm", "r");
    REQUIRE(file);
    REQUIRE(std::fscanf(file, "%ld %ld", &all, &pages) == 2);
    std::fclose(file);
    return pages * 4096;
  };
  f(full<float>(0.f, many), 3);  // compiles what a round is
  const long before = resident();
  const auto y = f(full<float>(0.f, many), 200);
  CHECK(y(many - 1) == 200);
  CHECK(resident() - before < 2 * 200 * many);  // half of what all rounds hold, their copies aside
}

TEST_CASE("arguments that are views are read as they lie") {
  const auto f = compile([](tensor<float, 2> x) {
    const float corner = x(0, 1);
    return std::pair{x + corner, std::vector<float>(x.data(), x.data() + x.numel())};
  });
  const tensor<float, 2> x{{1, 2, 3}, {4, 5, 6}};
  const auto [y, list] = f(transpose(x));
  CHECK(y.to_vector() == floats{5, 8, 6, 9, 7, 10});
  CHECK(list == floats{1, 4, 2, 5, 3, 6});
  CHECK(contains(error_of([&] { f(tensor<float, 2>{{1}}); }), "out of range"));
}

TEST_CASE("loops of the graph and breaks go together; a loop's body cannot be read") {
  const auto f = compile([](vec x) {
    const vec y = while_loop([](vec v) { return norm(v) > 1.f; }, [](vec v) { return v * 0.5f; }, x);
    const float total = sum(y).item();
    return cond(
        any(y > total), [&](vec v) { return v + y; }, [&](vec v) { return v * y; }, x);
  });
  CHECK(f(vec{3, 4}).to_vector() == floats{3 * 0.375f, 2});
  CHECK(f(vec{-3, 4}).to_vector() == floats{-3.375f, 4.5f});
  CHECK(f.report().breaks.size() == 1);
  const auto inside = compile([](vec x) {
    return fori_loop(
        0, 3, [](auto, vec v) { return v * v.item(); }, x);
  });
  CHECK(contains(error_of([&] { inside(vec{1}); }), "[item] the tensor is being traced and has no values here"));
  const auto around = compile([](vec x) {
    return cond(
        any(x > 0.f), [&](vec v) { return v * x.item(); }, [](vec v) { return v; }, x);
  });
  CHECK(contains(error_of([&] { around(vec{1}); }), "has no values here"));
  CHECK(contains(error_of([&] { around(vec{1}); }), line(__LINE__ - 3)));
}

TEST_CASE("a trace with open sizes goes on after its first break, and starts again only before it") {
  int begun = 0, middle = 0, ended = 0;
  const auto f = compile(
      [&](vec x) {
        ++begun;
        const vec y = x * static_cast<float>(2) + reshape(x, x.size(0));
        const float total = sum(y).item();
        ++middle;
        const vec z = y + total;
        ended += z.size(0) > 1 && max(z) > 0.f ? 1 : 0;
        return z / static_cast<float>(x.numel());
      },
      {.dynamic = dynamic::yes});
  CHECK(f(vec{1, 2}).to_vector() == floats{6, 7.5f});
  CHECK(begun == 1);
  CHECK(middle == 1);
  CHECK(ended == 1);
  CHECK(f(vec{1, 1, 2}).to_vector() == floats{5, 5, 6});
  CHECK(f(vec{1, 2}).to_vector() == floats{6, 7.5f});
  CHECK(begun == 3);
  CHECK(middle == 3);
  CHECK(f.specialisations() == 1);
  // A break that a later trace meets first.
  int calls = 0;
  const auto g = compile([&](vec x) {
    ++calls;
    return x.size(0) > 3 ? vec(x * sum(x).item()) : vec(x + 1.f);
  });
  CHECK(g(vec{1}).to_vector() == floats{2});
  CHECK(g(vec{1, 2}).to_vector() == floats{2, 3});
  CHECK(g(vec{1, 2, 3}).to_vector() == floats{2, 3, 4});
  CHECK(g(vec{1, 1, 1, 1}).to_vector() == floats{4, 4, 4, 4});
  CHECK(g(vec{1, 1, 1, 2}).to_vector() == floats{5, 5, 5, 10});
  CHECK(g(vec{5, 6}).to_vector() == floats{6, 7});
}

TEST_CASE("host calls happen before the break that follows them, once") {
  std::vector<float> seen;
  const auto f = compile([&](vec x) {
    const vec y = x * 2.f;
    host_call([&](const vec& v) { seen.push_back(v.item()); }, y);
    const float value = y.item();
    seen.push_back(-value);
    host_call([&](const vec& v) { seen.push_back(v.item()); }, y + 1.f);
  });
  f(vec{1});
  CHECK(seen == floats{2, -2, 3});
  f(vec{5});
  CHECK(seen == floats{2, -2, 3, 10, -10, 11});
}

TEST_CASE("trace() computes nothing, so that reading is an error with advice") {
  const auto text = error_of([] { trace([](vec x) { return x * x(0); })(vec{1}); });
  CHECK(contains(text, "[element access] the tensor is being traced and has no values here"));
  CHECK(contains(text, line(__LINE__ - 2)));
  CHECK(contains(error_of([] { trace([](vec x) { return x * sum(x).item(); })(vec{1}); }), "where("));
  // So does precompile().
  const auto f = compile([](vec x) { return x * sum(x).item(); });
  CHECK(contains(error_of([&] { f.precompile(spec<vec>{{1}}); }), "[item] the tensor is being traced"));
  CHECK(f(vec{3}).item() == 9);
}

TEST_CASE("captured tensors: what their storage holds is read by each call; a new handle is a new trace") {
  vec w{1, 2};
  int traces = 0;
  const auto f = compile([&](vec x) {
    ++traces;
    return x * w;
  });
  const vec x{1, 1};
  CHECK(f(x).to_vector() == floats{1, 2});
  w.data()[1] = 5;
  CHECK(f(x).to_vector() == floats{1, 5});
  w.fill(3);
  CHECK(f(x).to_vector() == floats{3, 3});
  // A new handle in the captured variable is seen: nobody else refers to the storage that the function was traced with.
  w = vec{7, 7};
  CHECK(traces == 1);
  CHECK(f(x).to_vector() == floats{7, 7});
  CHECK(f(x).to_vector() == floats{7, 7});
  CHECK(traces == 2);
  // A function that breaks runs again, and sees it.
  const auto g = compile([&](vec y) { return y.item() > 0.f ? y * w : y; });
  CHECK(g(vec{1}).to_vector() == floats{7, 7});
  w = vec{8, 8};
  CHECK(g(vec{1}).to_vector() == floats{8, 8});
}

TEST_CASE("reading a captured tensor's elements makes the function run at each call") {
  const vec w{1, 2};
  const auto f = compile([w](vec x) { return w(0) > 0.f ? x : -x; });
  CHECK(f(vec{3}).item() == 3);
  w.data()[0] = -1;
  CHECK(f(vec{3}).item() == -3);
  REQUIRE(f.report().breaks.size() == 1);
  CHECK(contains(f.report().breaks[0].why, "element access of a tensor with memory"));
  CHECK(
      contains(error_of([&] { compile([w](vec x) { return x * w(1); }, {.fullgraph = true})(vec{1}); }), "fullgraph"));
  // A table that the function makes of C++ values is as frozen as these.
  const auto table = compile([](vec x) {
    const vec t{1, 2, 4};
    t.data()[0] = 3;
    return x * t(0) + t;
  });
  CHECK(table(vec{1, 1, 1}).to_vector() == floats{6, 5, 7});
  CHECK(table.report().breaks.empty());
}

TEST_CASE("what was pushed before a captured tensor is written has read the old elements") {
  const vec count{0};
  const auto f = compile([&](vec x) {
    const vec before = x + count;
    count.data()[0] += 1;
    return std::pair{before, x + count};
  });
  for (float call = 0; call < 3; ++call) {
    const auto [before, after] = f(vec{10});
    CHECK(before.item() == 10 + call);
    CHECK(after.item() == 11 + call);
  }
  CHECK(count.item() == 3);
  // Also when it is an argument as well.
  const auto g = compile([&](vec x) {
    const vec before = x * 1.f;
    count.data()[0] += 50;
    return std::tuple{before, count + 0.f, x + 0.f};
  });
  for (const float call : {0.f, 50.f}) {
    const auto [before, after, argument] = g(count);
    CHECK(before.item() == 3 + call);
    CHECK(after.item() == 53 + call);
    CHECK(argument.item() == 53 + call);
  }
  // Inside grad the graph is not cut, and yet keeps what it has read.
  const auto h = compile([&](vec x) {
    return value_and_grad([&](vec y) {
      const auto before = sum(y * count);
      count.data()[0] = 7;
      return tensor<float, 0>(before + sum(y * count));
    })(x);
  });
  count.data()[0] = 2;
  CHECK(h(vec{3}).first.item() == 27);
  CHECK(h(vec{3}).second.item() == 14);
}

TEST_CASE("explain lists breaks; other shapes and the reference backend work alike") {
  const auto f = compile([](vec x) { return sum(x) > 0.f ? vec(x + 1.f) : vec(x - 1.f); });
  CHECK(f(vec{1}).item() == 2);
  CHECK(f(vec{1, 2, 3}).to_vector() == floats{2, 3, 4});
  CHECK(f(vec{-1, -2}).to_vector() == floats{-2, -3});
  const auto told = explain(f)(vec{1});
  REQUIRE(!told.breaks.empty());
  CHECK(told.breaks[0].why == "if");
  const auto later = compile([](vec x) {
    if (sum(x) < 0.f) x = x * x(0);
    return x;
  });
  later(vec{1});
  CHECK(later.report().breaks.size() == 1);
  CHECK(explain(later)(vec{-1}).breaks.size() == 2);
  later(vec{1});
  CHECK(later.report().breaks.size() == 2);
  for (const char* backend : {"reference", "aot_reference"}) {
    const auto g = compile([](vec x) { return x * sum(x).item() + 1.f; }, {.backend = backend});
    CHECK(g(vec{1, 2}).to_vector() == floats{4, 7});
    CHECK(g(vec{2, 2}).to_vector() == floats{9, 9});
    CHECK(g.report().backend == backend);
  }
}
