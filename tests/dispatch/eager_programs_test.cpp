// Stage points as programs: what shares one, what does not, and what a number costs. They run on the host here.
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include <sinter/engine/engine.hpp>
#include <sinter/front/evaluate/evaluate.hpp>
#include <sinter/front/functions/factories.hpp>

namespace {

using namespace sinter;

/// a · factor + b as a stage; counts its traces.
struct scaled_sum {
  float factor = 1;
  int traces = 0;

  engine::output run(const tensor<float, 1>& a, const tensor<float, 1>& b, std::vector<std::int64_t> facts = {}) {
    static char signature;
    const auto e = a * factor + b;
    engine::operand operands[4];
    detail::operand_list list{operands};
    detail::collect(e, list, {});
    const auto trace = [&] {
      ++traces;
      return detail::push(*engine::current(), e, {});
    };
    return detail::run_stage("scaled_sum", &signature, list, facts, device::cpu(), {}, trace);
  }
};

std::vector<float> elements_of(const engine::output& out) {
  const auto* p = static_cast<const float*>(out.memory.data());
  return {p, p + out.extents[0]};
}

}  // namespace

TEST_CASE("a stage is traced once for each layout") {
  scaled_sum s{2};
  const tensor<float, 1> a{1, 2, 3}, b{10, 20, 30};
  CHECK(elements_of(s.run(a, b)) == std::vector<float>{12, 24, 36});
  CHECK(elements_of(s.run(b, a)) == std::vector<float>{21, 42, 63});
  CHECK(s.traces == 1);
  const tensor<float, 1> c{1, 2, 3, 4};
  CHECK(elements_of(s.run(c, c)) == std::vector<float>{3, 6, 9, 12});
  CHECK(s.traces == 2);  // other extents, and one operand twice
  CHECK(elements_of(s.run(a, a)) == std::vector<float>{3, 6, 9});
  CHECK(s.traces == 3);
  CHECK(elements_of(s.run(a, b, {1})) == std::vector<float>{12, 24, 36});
  CHECK(s.traces == 4);  // other facts
  CHECK(elements_of(s.run(a, b)) == std::vector<float>{12, 24, 36});
  CHECK(s.traces == 4);
}

TEST_CASE("numbers are constants until one differs, then they are arguments") {
  scaled_sum s{2};
  const tensor<float, 1> a{1, 2, 3, 4, 5}, b{0, 0, 0, 0, 1};
  for (const float factor : {2.0f, 3.0f, 5.0f, -1.0f, 0.5f, 2.0f}) {
    s.factor = factor;
    CHECK(elements_of(s.run(a, b)) == std::vector<float>{factor, 2 * factor, 3 * factor, 4 * factor, 5 * factor + 1});
  }
  CHECK(s.traces == 2);
}

TEST_CASE("stages are safe from many threads") {
  std::array<bool, 8> right{};
  std::vector<std::thread> all;
  for (std::size_t i = 0; i < right.size(); ++i)
    all.emplace_back([&right, i] {
      const auto n = static_cast<float>(i);
      scaled_sum s{n};
      const tensor<float, 1> a{1, 2}, b{n, n};
      right[i] = elements_of(s.run(a, b)) == std::vector<float>{2 * n, 3 * n};
    });
  for (auto& t : all) t.join();
  for (const bool ok : right) CHECK(ok);
}

TEST_CASE("a stage that throws while it is traced leaves nothing behind") {
  static char signature;
  const tensor<float, 1> a{1, 2};
  engine::operand x;
  detail::operand_list list{&x};
  detail::collect(a, list, {});
  const auto run = [&](const auto& trace) {
    return detail::run_stage("thrower", &signature, list, {}, device::cpu(), {}, trace);
  };
  CHECK_THROWS_AS(run([]() -> ir::node_id { throw user_error("no"); }), user_error);
  CHECK(!engine::current());
  const auto out = run([&] { return detail::push(*engine::current(), a + 1, {}); });
  CHECK(elements_of(out) == std::vector<float>{2, 3});
}

TEST_CASE("a hit is cheap") {
  scaled_sum s{2};
  const tensor<float, 1> a{1, 2, 3}, b{10, 20, 30};
  const auto microseconds = [&](int calls) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) s.run(a, b, {7777});  // facts of no other test: the first call traces
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / calls;
  };
  const double first = microseconds(1);
  double best = 1e9;
  for (int round = 0; round < 5; ++round) best = std::min(best, microseconds(2000));
  MESSAGE("the first call takes ", first, " µs, a hit ", best, " µs");
  CHECK(best < first / 5);
}
