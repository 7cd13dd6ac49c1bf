// What a hit costs: guards checked, and allocations, counted.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include <sinter/dispatch/specialisation.hpp>

#include "../allocations.hpp"
#include "hits_programs.hpp"

namespace {

using namespace sinter;
using hits_programs::total;
using hits_programs::vec;

char signature;

/// The call of a function of one vector.
template <class Then>
auto with_call(const vec& x, Then&& then) {
  detail::flat_arguments<vec> flat("test", {}, x);
  return then(engine::call{&signature, flat.tensors(), flat.statics(), device::cpu()});
}

/// A table of specialisations for vectors of 1 to n elements.
engine::detail::specialisation_table table_of(int n) {
  series<std::shared_ptr<engine::detail::specialisation>> all;
  for (int i = 1; i <= n; ++i)
    with_call(full<float>(1.f, i), [&](const engine::call& c) {
      all.push_back(std::make_shared<engine::detail::specialisation>(engine::detail::guard(c, {}), nullptr, "",
                                                                     engine::detail::specialisation_state::regular));
    });
  return engine::detail::specialisation_table(std::move(all));
}

template <int>
struct quarter {
  vec a, b, c, d, e, f, g, h, i, j, k, l, m, n, o;
};
struct sixty {
  quarter<0> a;
  quarter<1> b;
  quarter<2> c;
  quarter<3> d;
};
struct hundreds {
  std::array<vec, 200> a, b;
};

std::vector<vec> vectors(std::size_t n) {
  std::vector<vec> out;
  for (std::size_t i = 0; i < n; ++i) out.push_back(full<float>(float(i), 3));
  return out;
}

}  // namespace

TEST_CASE("of ten specialisations a hit checks the guards of two at most") {
  std::atomic<std::uint64_t> clock{0};
  const auto table = table_of(10);
  int most = 0;
  for (int round = 0; round < 3; ++round)
    for (int i = 10; i >= 1; --i)
      with_call(full<float>(1.f, i), [&](const engine::call& c) {
        int checked = 0;
        const auto* found = table.look_up(c, clock, [&] { ++checked; });
        REQUIRE(found);
        CHECK(found->when.accepts(c));
        most = std::max(most, checked);
        checked = 0;
        CHECK(table.look_up(c, clock, [&] { ++checked; }) == found);
        CHECK(checked == 1);
      });
  CHECK(most == 2);
  with_call(full<float>(1.f, 11), [&](const engine::call& c) { CHECK(!table.look_up(c, clock)); });
}

TEST_CASE("a hit allocates nothing but results") {
  const auto f = compile([](vec x, vec y, vec z) { return x * y + z; });
  const vec x{1, 2, 3};
  const auto calls = [&](auto&& call) {
    for (int i = 0; i < 3; ++i) call();
    const long before = allocations;
    for (int i = 0; i < 100; ++i) call();
    return allocations - before;
  };
  // What a result costs by itself.
  const long one = calls([] { static_cast<void>(engine::allocate(12)); });
  CHECK(calls([&] { f(x, x, x); }) == one);

  const auto g = compile([](const sixty& s) { return s.a.a + s.d.o; });
  sixty s;
  detail::for_each_leaf(s, [&](vec& leaf) { leaf = x; });
  g(s);
  CHECK(calls([&] { g(s); }) == one);

  const auto h = compile([](vec x, auto rate, int n, bool up) { return up ? vec(x * rate + n) : x; });
  float rate = 0;
  h(x, rate, 1, true);
  CHECK(calls([&] { h(x, rate += 1, 1, true); }) == one);

  // Loops and branches: what they hand on lies on the stack.
  const auto loops = compile([](vec x, tensor<bool, 0> up) {
    const auto twice = fori_loop(
        0, 5, [](auto, vec v) { return vec(v * 2.f + 1.f); }, x);
    const auto grown = while_loop([](vec v) { return sum(v) < 1e4f; }, [](vec v) { return vec(v * 3.f); }, twice);
    return vec(cond(
        up, [](vec v) { return vec(v + 1.f); }, [](vec v) { return vec(v - 1.f); }, grown));
  });
  const tensor<bool, 0> up = true;
  loops(x, up);
  CHECK(calls([&] { loops(x, up); }) == calls([&] { g(s); }));

  // Two that take turns.
  const vec longer{1, 2, 3, 4};
  f(longer, longer, longer);
  CHECK(calls([&] {
          f(x, x, x);
          f(longer, longer, longer);
        }) == 2 * one);
}

// From the second hit on.
TEST_CASE("a hit of hundreds of tensors allocates nothing but the vectors of its result") {
  const vec x{1, 2, 3};
  const auto many = vectors(400);

  hundreds h;
  std::copy_n(many.begin(), 200, h.a.begin());
  std::copy_n(many.begin() + 200, 200, h.b.begin());
  const auto of_struct = compile([](const hundreds& h) { return total(total(h.a[0], h.a), h.b); });
  of_struct(h);
  CHECK(allocations_of([&] { of_struct(h); }) == 0);
  CHECK(of_struct(h)(0) == 399 * 200);

  const auto of_vector = compile([](const std::vector<vec>& all) { return total(all[0], all); });
  of_vector(many);
  CHECK(allocations_of([&] { of_vector(many); }) == 0);

  // A call of another function in which one is made, and one that has more of them.
  const auto made = compile([](const std::vector<vec>& all) {
    std::vector<vec> out;
    for (std::size_t i = 0; i < 40; ++i) out.push_back(all[i] + all[399 - i]);
    return out;
  });
  made(many);
  CHECK(allocations_of([&] { made(many); }) == 1);
  CHECK(allocations_of([&] { of_vector(made(many)); }, 3) == 1);
  CHECK(made(many)[39](2) == 399);

  const auto lent = compile([](std::vector<vec> all) { return total(all[0], all); }, {.donate = {0}});
  lent(vectors(50));
  CHECK(allocations_of([&] { lent(vectors(50)); }) == allocations_of([] { vectors(50); }));
}

TEST_CASE("loops and branches over hundreds of tensors allocate nothing") {
  const auto many = vectors(150);
  const vec x{1, 2, 3};
  const tensor<bool, 0> up = true;
  const auto f = compile(hits_programs::in_steps);
  const auto want = f(x, up, many).to_vector();
  CHECK(allocations_of([&] { f(x, up, many); }) == 0);
  CHECK(f(x, up, many).to_vector() == want);
  CHECK(want[0] == 1 + 4 * 11175);
}

TEST_CASE("open extents, more than a few, allocate nothing") {
  const auto f = compile([](const std::vector<vec>& all) { return concat<0>(all); }, {.dynamic = dynamic::yes});
  std::vector<vec> a, b;
  for (int i = 0; i < 40; ++i) {
    a.push_back(full<float>(1.f, 10 + 3 * i));
    b.push_back(full<float>(2.f, 11 + 5 * i));
  }
  const auto calls = [&] {
    f(a);
    f(b);
  };
  calls();
  CHECK(f.specialisations() == 1);
  CHECK(allocations_of(calls) == 0);
  CHECK(f(b).numel() == concat<0>(b).numel());
}

TEST_CASE("numbers beside many arguments allocate nothing") {
  const auto many = vectors(140);
  const auto f = compile([](const std::vector<vec>& all, float rate) { return vec(total(all[0], all) * rate); });
  for (const float rate : {0.5f, 0.25f, 0.125f, 0.375f}) f(many, rate);
  CHECK(allocations_of([&] { f(many, 0.375f); }) == 0);
  CHECK(f(many, 0.375f)(0) == 0.375f * 9730);
}

TEST_CASE("a custom op's arrays allocate nothing") {
  const auto twice = custom_op<"twice">(
      [](elements<const float, 1> x, elements<float, 1> y) {
        for (std::int64_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i];
      },
      none, [](const auto& x) { return result_of<float, 1>{x}; });
  const auto f = compile([&](vec x) { return vec(twice(x + 1.f) * 3.f); });
  const vec x{1, 2, 3};
  f(x);
  CHECK(allocations_of([&] { f(x); }) == 0);
  CHECK(f(x)(2) == 24);
}
