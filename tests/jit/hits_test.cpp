// What a hit costs: guards checked, and allocations, counted.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include <sinter/dispatch/specialisation.hpp>

namespace {
constinit thread_local long allocations = 0;
char signature;
}  // namespace

// Every other form calls these.
__attribute__((noinline)) void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* const p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void* p) noexcept { std::free(p); }
__attribute__((noinline)) void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace {

using namespace sinter;
using vec = tensor<float, 1>;

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
                                                                     engine::detail::standing::regular));
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
