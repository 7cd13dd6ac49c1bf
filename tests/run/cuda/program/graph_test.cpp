#include <doctest/doctest.h>
#include <sinter/run/cuda/program/control.hpp>
#include <sinter/run/cuda/program/graph.hpp>

#include <numeric>
#include <random>
#include <thread>

#include "../support.hpp"

using namespace sinter;
using namespace support;

namespace {

/// out = (in * 2 + i) * factor + i, through an intermediate, over a filled value; two launches and a fill.
cuda::sequence two_steps(std::int64_t n, std::int64_t scratch_bytes = (1 << 16) + 64) {
  const auto code = module_of(scale_source);
  cuda::sequence s = one_launch(code, "scale", {{3, 0, true}, {1, 0}, {2, 4}}, (n + 127) / 128, 128, 1);
  cuda::step fill;
  fill.what = cuda::action::fill;
  fill.operands = {{4, 0, true}};
  fill.bytes = 64;
  fill.value = 7;
  fill.label = "a fill";
  s.steps.push_back(fill);
  auto second = one_launch(code, "scale", {{0, 0, true}, {3, 0}, {2, 4}}, (n + 127) / 128, 128, 1);
  s.steps.push_back(second.steps[0]);
  s.given = 3;
  s.intermediates = {0, 1 << 16};
  s.intermediate_bytes = {1 << 16, 64};
  s.scratch_bytes = scratch_bytes;
  return s;
}

struct call {
  std::vector<float> in;
  storage source, out;
  float factor = 2;

  explicit call(float first, std::int64_t n) : in(static_cast<std::size_t>(n)) {
    std::iota(in.begin(), in.end(), first);
    source = on_gpu(in);
    out = cuda::allocate(in.size() * 4, 0);
  }
  template <class F>
  void run(F&& launch) {
    void* const given[] = {out.data(), source.data(), &factor};
    const long sizes[] = {static_cast<long>(in.size())};
    launch(std::span<void* const>(given), sizes);
  }
  bool right() const {
    const auto result = on_host<float>(out, in.size());
    for (std::size_t i = 0; i < in.size(); ++i) {
      const float x = static_cast<float>(i);
      if (result[i] != (in[i] * factor + x) * factor + x) return false;
    }
    return true;
  }
};

/// Two recordings that share scratch memory, and a call of each. Each scratch block is a segment of its own, which trim() returns.
struct two_recordings {
  std::shared_ptr<cuda::scratch_pool> pool = std::make_shared<cuda::scratch_pool>();
  cuda::sequence small = two_steps(100, 12 << 20), large = two_steps(10000, 32 << 20);
  cuda::recording a{small, pool}, b{large, pool};
  call x{1, 100}, y{2, 10000};

  void run_a() {
    x.run([&](auto given, auto sizes) { a.launch(given, sizes); });
    CHECK(x.right());
  }
  void run_b() {
    y.run([&](auto given, auto sizes) { b.launch(given, sizes); });
    CHECK(y.right());
  }
};

}  // namespace

TEST_CASE("a recorded call gives what a plain one gives, whatever moves") {
  const std::int64_t n = 1000;
  const auto s = two_steps(n);
  cuda::recording r(s, std::make_shared<cuda::scratch_pool>());
  const auto launch = [&](auto given, auto sizes) { r.launch(given, sizes); };
  call first(0, n);
  first.run(launch);
  CHECK(first.right());
  CHECK(r.copies() == 0);
  for (int i = 0; i < 3; ++i) {
    first.out = cuda::allocate(n * 4, 0);
    first.run(launch);
    CHECK(first.right());
  }
  const std::size_t changed = r.changed_nodes();
  first.run(launch);
  CHECK(r.changed_nodes() == changed);
  // A value given by the host.
  first.factor = 5;
  first.run(launch);
  CHECK(first.right());
  // Other buffers.
  call second(100, n);
  second.run(launch);
  CHECK(second.right());
  first.run(launch);
  CHECK(first.right());
  CHECK(second.right());
}

TEST_CASE("buffers that take turns need no changes after the first turns") {
  const std::int64_t n = 500;
  const auto s = two_steps(n);
  cuda::recording r(s, std::make_shared<cuda::scratch_pool>());
  std::vector<std::unique_ptr<call>> calls;
  for (int i = 0; i < 3; ++i) calls.push_back(std::make_unique<call>(static_cast<float>(10 * i), n));
  const auto round = [&] {
    for (auto& c : calls) c->run([&](auto given, auto sizes) { r.launch(given, sizes); });
  };
  round();
  round();
  const std::size_t changed = r.changed_nodes();
  for (int i = 0; i < 5; ++i) round();
  CHECK(r.changed_nodes() == changed);
  CHECK(r.copies() == 3);
  for (auto& c : calls) CHECK(c->right());
  // Six sets of buffers and four copies: they are changed again and again, and right.
  for (int i = 3; i < 6; ++i) calls.push_back(std::make_unique<call>(static_cast<float>(10 * i), n));
  for (int i = 0; i < 3; ++i) {
    for (auto& c : calls) c->out = cuda::allocate(n * 4, 0);
    round();
    for (auto& c : calls) CHECK(c->right());
  }
  CHECK(r.copies() == 4);
  CHECK(r.changed_nodes() > changed);
}

TEST_CASE("recordings of different sizes share one scratch block") {
  two_recordings both;
  for (int i = 0; i < 4; ++i) {
    both.x.out = cuda::allocate(400, 0);
    both.run_a();
    both.run_b();
    CHECK(both.x.right());
  }
}

TEST_CASE("what an earlier recording worked on may be gone when the call is recorded once more") {
  two_recordings both;
  for (int i = 0; i < 2; ++i) both.run_a();
  CHECK(both.a.copies() == 1);
  for (int i = 0; i < 2; ++i) both.run_b();
  cuda::trim(0);
  both.run_a();
  CHECK(both.a.copies() == 2);
}

TEST_CASE("one recording, many threads and streams") {
  const std::int64_t n = 300;
  const auto s = two_steps(n);
  cuda::recording r(s, std::make_shared<cuda::scratch_pool>());
  std::vector<char> good(6);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < good.size(); ++t)
    threads.emplace_back([&, t] {
      cuda::stream mine(0);
      std::unique_ptr<cuda::stream_scope> scope;
      if (t % 2 == 0) scope = std::make_unique<cuda::stream_scope>(mine.get());
      bool right = true;
      call c(static_cast<float>(t), n);
      for (int i = 0; i < 10; ++i) {
        c.factor = static_cast<float>(i);
        c.run([&](auto given, auto sizes) { r.launch(given, sizes); });
        right = right && c.right();
      }
      good[t] = right;
    });
  for (auto& t : threads) t.join();
  CHECK(std::count(good.begin(), good.end(), 1) == static_cast<std::ptrdiff_t>(good.size()));
}

TEST_CASE("many threads, and memory for the scratch blocks of few: a call is right, or told that there is none") {
  if (emulator::real()) {
    MESSAGE("SKIPPED: a GPU has as much memory as it has");
    return;
  }
  cuda::trim(0);
  const std::int64_t n = 100;
  const auto s = two_steps(n, 20 << 20);
  std::vector<std::unique_ptr<call>> calls;
  for (int t = 0; t < 4; ++t) calls.push_back(std::make_unique<call>(static_cast<float>(t), n));
  const std::size_t before = cuda::memory_of(0).reserved;
  const variable memory("SINTER_EMULATOR_MEMORY", std::to_string(before + (std::size_t{44} << 20)));
  std::vector<std::string> wrong(calls.size());
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < calls.size(); ++t)
    threads.emplace_back([&, t] {
      cuda::recording r(s, std::make_shared<cuda::scratch_pool>(), 0);
      const auto known = [&](const std::string& message) {
        if (!message.empty() && !contains(message, "out of memory")) wrong[t] = message;
        return message.empty();
      };
      for (int i = 0; i < 20; ++i) {
        const bool ran = known(message_of([&] {
          calls[t]->factor = static_cast<float>(i);
          calls[t]->run([&](auto given, auto sizes) { r.launch(given, sizes); });
        }));
        if (ran && !calls[t]->right()) wrong[t] = "a wrong result";
        known(message_of([&] { cuda::allocate(30 << 20, 0); }));
      }
    });
  for (auto& t : threads) t.join();
  CHECK(wrong == std::vector<std::string>(calls.size()));
  CHECK(cuda::allocate(40 << 20, 0).bytes() == 40 << 20);
}

TEST_CASE("kernels that are begun early see what is before them, whatever stands between") {
  const long n = 300, bytes = n * 4;
  const std::shared_ptr<const cuda::module> code[] = {module_of(adds_source("")), module_of(adds_source(awaits))};
  std::mt19937 bits(7);
  const auto any = [&](unsigned count) { return static_cast<int>(bits() % count); };
  std::size_t early = 0;
  for (int round = 0; round < 20; ++round) {
    // A result, an argument, and three intermediates.
    cuda::sequence s;
    s.sizes = 1;
    s.given = 2;
    s.intermediates = {0, 2048, 4096};
    s.intermediate_bytes = {bytes, bytes, bytes};
    s.scratch_bytes = 8192;
    constexpr int written[] = {0, 2, 3, 4};
    const auto fill = [&](int to) {
      cuda::step one;
      one.what = cuda::action::fill;
      one.operands = {{to, 0, true}};
      one.bytes = bytes;
      one.value = static_cast<unsigned char>(any(60));
      s.steps.push_back(one);
    };
    const auto add = [&](int to, int a, int b, bool awaits, int blocks) {
      auto one = one_launch(code[awaits], "adds", {{to, 0, true}, {a, 0}, {b, 0}}, blocks, 128, 1).steps[0];
      one.awaits = awaits && cuda::device_at(0).capability >= 90;
      s.steps.push_back(one);
    };
    for (const int to : written) fill(to);
    for (int k = 0; k < 12; ++k)
      if (const int to = written[any(4)]; any(8) == 0) fill(to);
      else add(to, any(5), any(5), any(4) != 0, any(6) == 0 ? 0 : 3);
    for (int k = 2; k < 5; ++k) add(0, 0, k, true, 3);
    cuda::recording r(s, std::make_shared<cuda::scratch_pool>(), 0);
    for (int turn = 0; turn < 6; ++turn) {
      const storage in = on_gpu(std::vector<float>(n, static_cast<float>(turn + 1)));
      const storage out = cuda::allocate(bytes, 0), expected = cuda::allocate(bytes, 0);
      void *const given[] = {out.data(), in.data()}, *const apart[] = {expected.data(), in.data()};
      cuda::execute(s, apart, &n);
      r.launch(given, &n);
      CHECK(on_host<float>(out, n) == on_host<float>(expected, n));
    }
    early += r.early_edges();
  }
  CHECK((cuda::device_at(0).capability < 90 || early > 50));
}

TEST_CASE("products are recorded too") {
  std::string why;
  cuda::matmul p{.m = 4, .n = 6, .k = 5, .row_a = 5, .row_b = 6, .row_out = 6};
  p.after = cuda::epilogue::bias_relu;
  if (!cuda::can_multiply(p, 0, why)) {
    MESSAGE("SKIPPED: " << why);
    return;
  }
  // out = scale(relu(a b + bias))
  const auto code = module_of(scale_source);
  cuda::sequence s = one_launch(code, "scale", {{3, 0, true}, {5, 0}, {4, 4}}, 1, 128, 1);
  cuda::step product;
  product.what = cuda::action::product;
  product.label = "a product";
  product.product = p;
  product.operands = {{0, 0}, {1, 0}, {5, 0, true}, {2, 0}};
  s.steps.insert(s.steps.begin(), product);
  s.given = 5;
  s.intermediates = {0};
  s.intermediate_bytes = {4 * 6 * 4};
  s.scratch_bytes = 4 * 6 * 4;
  cuda::recording r(s, std::make_shared<cuda::scratch_pool>());
  for (int round = 0; round < 7; ++round) {
    std::vector<float> a(20), b(30), bias(6);
    std::iota(a.begin(), a.end(), static_cast<float>(round) - 8);
    std::iota(b.begin(), b.end(), -12.0f);
    std::iota(bias.begin(), bias.end(), 3.0f);
    const storage ga = on_gpu(a), gb = on_gpu(b), gbias = on_gpu(bias), out = cuda::allocate(24 * 4, 0);
    const float factor = 2;
    void* const given[] = {ga.data(), gb.data(), gbias.data(), out.data(), const_cast<float*>(&factor)};
    const long sizes[] = {24};
    r.launch(given, sizes);
    const auto result = on_host<float>(out, 24);
    for (std::size_t i = 0; i < 24; ++i) {
      float sum = bias[i % 6];
      for (std::size_t k = 0; k < 5; ++k) sum += a[i / 6 * 5 + k] * b[k * 6 + i % 6];
      CHECK(result[i] == doctest::Approx(std::max(sum, 0.0f) * 2 + static_cast<float>(i)));
    }
  }
}

TEST_CASE("a recorded loop: as many nodes as it has turns, of which those are changed whose operands moved") {
  const long n = 100, bytes = n * 4;
  // c = c * 3 + x[i], for the rows of x from the last to the first.
  cuda::sequence body = one_launch(module_of(adds_source(awaits)), "adds", {{3, 0, true}, {1, 0}, {2, 0}}, 1, 128, 1);
  body.given = 4;
  const auto loop_of = [&](std::int64_t length) {
    engine::run::loop_shape shape;
    shape.length = length;
    shape.reverse = true;
    shape.carried = shape.sliced = {bytes};
    cuda::sequence s;
    s.sizes = 1;
    s.given = 3;
    s.steps.emplace_back();
    s.steps[0].what = cuda::action::call;
    s.steps[0].operands = {{0, 0}, {1, 0}, {2, 0, true}, {-1}};
    s.steps[0].call = std::make_shared<cuda::loop>(body, shape);
    s.scratch_bytes = s.steps[0].call->scratch_bytes();
    return s;
  };
  CHECK(cuda::nodes_of(loop_of(1000)) == 1001);
  CHECK(cuda::nodes_of(loop_of(std::int64_t{1} << 62)) > cuda::max_nodes);
  const cuda::sequence s = loop_of(3);
  cuda::recording r(s, std::make_shared<cuda::scratch_pool>(), 0);
  const std::vector<float> rows = [&] {
    std::vector<float> all(3 * n);
    std::iota(all.begin(), all.end(), 1.0f);
    return all;
  }();
  std::vector<storage> outs;
  for (int k = 0; k < 6; ++k) outs.push_back(cuda::allocate(bytes, 0));
  storage first = on_gpu(std::vector<float>(n, 1)), x = on_gpu(rows);
  const auto call = [&](const storage& out) {
    void* const given[] = {first.data(), x.data(), out.data()};
    const std::size_t before = r.changed_nodes();
    r.launch(given, &n);
    const auto got = on_host<float>(out, n), start = on_host<float>(first, n);
    for (std::size_t i = 0; i < n; ++i)
      REQUIRE(got[i] == ((start[i] * 3 + rows[2 * n + i]) * 3 + rows[n + i]) * 3 + rows[i]);
    return r.changed_nodes() - before;
  };
  for (std::size_t k = 0; k < 4; ++k) CHECK(call(outs[k]) == 0);
  CHECK(r.copies() == 4);
  CHECK(call(outs[4]) == 1);
  const storage old_first = std::exchange(first, on_gpu(std::vector<float>(n, 5))), old_x = x;
  CHECK(call(outs[1]) == 1);
  x = on_gpu(rows);
  CHECK(call(outs[2]) == 3);
  CHECK(call(outs[5]) == 3);  // the fourth copy has neither, nor that result
}

TEST_CASE("a step waits for those whose memory it needs, and for no others") {
  // Operands 0 to 3 are given, 4 to 6 lie in scratch memory; 5 and 6 share it.
  cuda::sequence s;
  s.given = 4;
  s.intermediates = {0, 64, 96};
  s.intermediate_bytes = {64, 64, 64};
  const auto add = [&](std::vector<cuda::operand> operands, std::int64_t scratch = 0, std::int64_t bytes = 0) {
    cuda::step one;
    one.operands = operands;
    one.scratch = scratch;
    one.scratch_bytes = bytes;
    s.steps.push_back(one);
  };
  add({{0, 0}, {4, 0, true}});          // 0: makes 4
  add({{4, 0}, {5, 0, true}});          // 1: reads 4
  add({{4, 0}, {2, 0, true}});          // 2: reads 4 too
  add({{0, 0}, {6, 0, true}});          // 3: takes memory of 5
  add({{6, 0}, {2, 0}, {3, 0, true}});  // 4: reads results of 2 and 3
  add({{1, 0}}, 256, 128);              // 5: nothing but scratch memory of its own
  add({{0, 0}}, 256, 128);              // 6: the same scratch memory
  const auto waits = cuda::dependencies(s);
  const auto list = [&](std::size_t i) { return std::vector<int>(waits[i].begin(), waits[i].end()); };
  CHECK(list(0).empty());
  CHECK(list(1) == std::vector{0});
  CHECK(list(2) == std::vector{0});
  CHECK(list(3) == std::vector{1});
  CHECK(list(4) == std::vector{3, 2});
  CHECK(list(5).empty());
  CHECK(list(6) == std::vector{5});
  // A result that may have an argument's storage waits for the argument's readers.
  s.shared = {{2, 1}};
  add({{2, 0, true}});
  CHECK(cuda::dependencies(s)[7].size() == 2);
  s.steps.pop_back();
  s.steps.erase(s.steps.begin() + 2);
  add({{2, 0, true}});
  const auto shared = cuda::dependencies(s);
  CHECK(std::vector<int>(shared[6].begin(), shared[6].end()) == std::vector{4, 3});
}
