// Segments keep the sizes open that whole functions would, and compute what the function computes when it is not compiled.
#include <atomic>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../close.hpp"
#include "../stderr_text.hpp"
#include "../texts.hpp"

using namespace sinter;
using texts::contains;
using texts::error_of;

namespace {

using matrix = tensor<float, 2>;
using vector = tensor<float, 1>;

matrix sample(int rows, int columns, int seed) { return normal<float>(make_key(seed), rows, columns); }

template <class A, class B>
void check_same(const A& a, const B& b) {
  REQUIRE(a.shape() == b.shape());
  check_close(a.to_vector(), b.to_vector(), 1e-4);
}

/// How many kernels the segments of the most recently used specialisation have.
std::size_t kernels_of(const auto& f) { return f.report().kernels; }

/// The sizes that are less open than asked for, one a line.
std::string narrowed(const auto& f) {
  std::string out;
  for (const auto& s : f.explain().specialisations)
    for (const auto& n : s.sizes) out += n.text() + "\n";
  return out;
}

}  // namespace

TEST_CASE("segments serve every size: a break in each way, branches on values, size arithmetic") {
  const auto fn = [](matrix x, matrix w) {
    matrix y = matmul(x, w);
    const bool up = mean(y).item() > 0;
    matrix z = tanh(y);
    if (up) z = z / x.size(0);
    else z = concat<0>(z, z);
    const bool high = z.data()[0] > 0.1f;
    const bool corner = z(0, 1) > 0.f;
    std::ostringstream text;
    text << sum(z, axis<1>);
    vector flat = softmax(reshape(z, z.numel()));
    if (sum(z) > 0.f) flat = flat + 1.f;
    return high && corner && !text.str().empty() ? vector(flat * 2.f) : flat;
  };
  const auto f = compile(fn);
  std::mt19937 random(7);
  std::size_t after = 0;
  for (int call = 0; call < 150; ++call) {
    const int n = 1 + static_cast<int>(random() % 12);
    const matrix x = sample(n, 4, call), w = sample(4, 3, call + 1000);
    check_same(f(x, w), fn(x, w));
    if (call == 99) after = kernels_of(f);
  }
  CHECK(f.specialisations() == 1);
  CHECK(kernels_of(f) == after);  // by then every way through the function is known, for one row and for more
  CHECK(narrowed(f).empty());
  for (const int n : {40, 1000}) {
    const matrix x = sample(n, 4, n), w = sample(4, 3, n);
    check_same(f(x, w), fn(x, w));
  }
  CHECK(kernels_of(f) == after);
}

TEST_CASE("what a function asks of its sizes after a break is answered for each call") {
  int runs = 0;
  const auto fn = [&](matrix x, matrix y) {
    ++runs;
    matrix z = sum(x).item() > 0 ? matrix(x * 2.f) : x;
    if (x.size(0) > 5) z = z + 1.f;
    if (x.size(0) == y.size(0)) z = z + y;
    if (z.size(0) % 2 == 0) z = reshape(reshape(z, z.size(0) / 2, 2 * z.size(1)), z.size(0), z.size(1));
    const bool up = max(z).item() > 0;
    if (x.size(0) > y.size(0)) z = slice(z, axis<0>, 0, y.size(0));
    return std::tuple{matrix(z - (up ? 1.f : 2.f)), x.size(0), z.size(0) * 2};
  };
  const auto f = compile(fn, {.recompile_limit = 64});
  std::mt19937 random(3);
  for (int call = 0; call < 200; ++call) {
    const int n = 1 + static_cast<int>(random() % 12), m = random() % 3 ? n : 1 + static_cast<int>(random() % 12);
    CAPTURE(n);
    CAPTURE(m);
    const matrix x = sample(n, 3, call), y = sample(m, 3, call + 1000);
    const int before = runs;
    const auto [got, rows, twice] = f(x, y);
    if (call > 0) CHECK(runs == before + 1);  // side effects happen once
    const auto [want, want_rows, want_twice] = fn(x, y);
    check_same(got, want);
    CHECK(rows == want_rows);
    CHECK(twice == want_twice);
  }
  CHECK(f.specialisations() == 1);
}

TEST_CASE("derivatives and rounds of a loop are compiled once for all sizes") {
  const auto fn = [](matrix x, matrix w) {
    int rounds = 0;
    while (sqrt(sum(x * x)).item() > 1.f) {
      x = x * 0.5f;
      ++rounds;
    }
    const auto [loss, g] = value_and_grad([&](matrix w) {
      const matrix y = matmul(x, w);
      tensor<float, 0> s = mean(y * y);
      if (sum(y) > 0.f) s = s * 2.f;
      return s;
    })(w);
    return loss.item() > 0.01f ? std::pair{g, rounds} : std::pair{matrix(w - g), rounds};
  };
  const auto f = compile(fn);
  std::size_t after = 0;
  for (int call = 0; call < 60; ++call) {
    const int n = 2 + call * 7 % 23;
    const matrix x = sample(n, 4, call), w = sample(4, 3, call + 500);
    const auto [got, rounds] = f(x, w);
    const auto [want, want_rounds] = fn(x, w);
    check_same(got, want);
    CHECK(rounds == want_rounds);
    if (call == 39) after = kernels_of(f);
  }
  CHECK(f.specialisations() == 1);
  CHECK(kernels_of(f) == after);
}

TEST_CASE("policy and marks decide which sizes of a function with breaks are open") {
  const auto fn = [](matrix x) {
    const bool up = sum(x).item() > 0;
    return up ? matrix(x * 2.f) : matrix(x - 1.f);
  };
  const auto positive = [](int rows, int columns) { return matrix(sample(rows, columns, 1) * 0.f + 1.f); };
  const auto new_ones = [&](const auto& f, const matrix& x) {
    const std::size_t before = f.specialisations() ? kernels_of(f) : 0;
    check_same(f(x), fn(x));
    return kernels_of(f) - before;
  };
  const auto closed = compile(fn, {.dynamic = dynamic::no});
  const auto open = compile(fn, {.dynamic = dynamic::yes});
  const auto automatic = compile(fn);
  for (const int n : {5, 6, 7, 8}) {
    CAPTURE(n);
    CHECK(new_ones(closed, positive(n, 11)) > 0);
    CHECK((new_ones(open, positive(n, 11 + n)) > 0) == (n == 5));
    CHECK((new_ones(automatic, positive(n, 11)) > 0) == (n < 7));
  }
  CHECK(new_ones(automatic, positive(5, 11)) == 0);
  CHECK(new_ones(automatic, positive(5, 12)) > 0);  // the second number of columns
  CHECK(new_ones(automatic, positive(9, 13)) == 0);
  const auto marked = compile(fn);
  for (const int n : {5, 6, 7}) {
    matrix x = positive(n, 14);
    mark_dynamic(x, 0, {.min = 2, .max = 7});
    CHECK((new_ones(marked, x) > 0) == (n == 5));
  }
  CHECK(new_ones(marked, positive(9, 14)) > 0);  // the same graph, but beyond what the others are for
  const auto still = compile(fn);
  for (const int n : {5, 6, 7}) {
    matrix x = positive(n, 15);
    mark_static(x, 0);
    CHECK(new_ones(still, x) > 0);
  }
}

TEST_CASE("explain tells what fixes a size of a segment, with its line") {
  const auto called = [](const auto& f, std::initializer_list<int> rows) {
    for (const int n : rows) (void)f(sample(n, 3, n));
    return narrowed(f);
  };
  const int at = __LINE__;
  const auto counted = compile([](matrix x) {
    const bool up = sum(x).item() > 0;
    const int n = static_cast<int>(x.size(0));
    return up ? matrix(x + static_cast<float>(n)) : matrix(x * static_cast<float>(n));
  });
  CHECK(contains(called(counted, {4, 5, 6}), "converted to an integer"));
  CHECK(contains(narrowed(counted), "breaks_dynamic_test.cpp:" + std::to_string(at + 3)));
  const auto compared = compile([](matrix x) {
    const bool up = sum(x).item() > 0;
    return x.size(0) > 3 && up ? matrix(x * 2.f) : x;
  });
  CHECK(contains(called(compared, {4, 5, 6}), "at least 4"));
  // What runs outside the trace gets numbers: such a function has fixed sizes.
  const auto eager = compile([](matrix x) {
    const dim n = x.size(0);
    return matrix(x + disable([&](matrix y) { return matrix(y + zeros<float>(n, y.size(1))); })(x * 2.f));
  });
  for (const int n : {3, 4, 5}) check_same(eager(sample(n, 3, n)), matrix(sample(n, 3, n) * 3.f));
  CHECK(contains(narrowed(eager), "disable ends the graph"));
  const auto late = compile(
      [](matrix x) {
        const bool up = sum(x).item() > 1e9f;
        return up ? x : matrix(x + disable([](matrix y) { return matrix(y + 1.f); })(x * 2.f));
      },
      {.dynamic = dynamic::yes});
  for (const int n : {3, 4, 5}) check_same(late(sample(n, 3, n)), matrix(sample(n, 3, n) * 3.f + 1.f));
  CHECK(contains(narrowed(late), "disable ends the graph"));
}

TEST_CASE("a shape that is right for this call alone makes a segment for such calls, and nothing is repeated") {
  int runs = 0;
  const auto fn = [&](matrix x, matrix y) {
    ++runs;
    const bool up = sum(x).item() > -1e9f;
    const matrix part = slice(x, axis<0>, 0, y.size(0));  // whether it fits is asked at each call
    return up ? matrix(part * y) : part;
  };
  const auto f = compile(fn, {.dynamic = dynamic::yes});
  for (const auto& [n, m] : {std::pair{7, 4}, {9, 3}, {5, 5}, {12, 11}}) {
    const matrix x = sample(n, 3, n), y = sample(m, 3, m);
    const int before = runs;
    const matrix got = f(x, y);
    CHECK(runs == before + 1);
    check_same(got, fn(x, y));
  }
  CHECK(!contains(narrowed(f), "is fixed"));
  // A mistake of the caller stays one, and is told of this call.
  const int before = runs;
  CHECK(!error_of([&] { (void)f(sample(3, 3, 1), sample(8, 3, 1)); }).empty());
  CHECK(runs == before + 1);
}

TEST_CASE("branches and loops of the graph within segments, with questions inside them") {
  const auto fn = [](matrix x, matrix y) {
    const bool up = sum(x).item() > 0;
    const auto chosen = cond(
        sum(x) > 0.f, [&] { return matrix(x * 2.f); },
        [&] { return x.size(0) == y.size(0) ? matrix(x + y) : matrix(-x); });
    const auto last = scan(
        [](vector c, vector row) {
          return std::pair{vector(c + row), sum(c)};
        },
        zeros<float>(3), chosen);
    return up ? std::pair{matrix(chosen * 1.5f), last.second} : std::pair{chosen, last.second};
  };
  const auto f = compile(fn);
  for (int call = 0; call < 40; ++call) {
    const int n = 2 + call % 7, m = call % 2 ? n : 2 + call * 3 % 8;
    const matrix x = sample(n, 3, call), y = sample(m, 3, call + 77);
    const auto [got, sums] = f(x, y);
    const auto [want, want_sums] = fn(x, y);
    check_same(got, want);
    check_same(sums, want_sums);
  }
  CHECK(f.specialisations() == 1);
}

TEST_CASE("arguments that lie otherwise, and tensors from outside") {
  const matrix w = sample(3, 3, 5);
  const auto fn = [w](matrix x, vector scale) {
    const bool up = sum(x).item() > 0;
    const matrix y = matmul(x, w) * scale;
    const bool down = min(y).item() < 0;
    return up ? matrix(y + x) : down ? matrix(y - x) : x;
  };
  const auto f = compile(fn);
  for (int call = 0; call < 30; ++call) {
    const int n = 2 + call * 5 % 11;
    const matrix wide = sample(n, 6, call), tall = sample(3, n, call);
    const vector scale = arange<float>(3) + 1.f;
    for (const matrix& x : {slice(wide, axis<1>, 0, 3), transpose(tall), sample(n, 3, call)})
      check_same(f(x, scale), fn(x, scale));
  }
}

TEST_CASE("extents that are equal by an equation alone stay open") {
  const auto f = compile(
      [](matrix x, matrix y) {
        const bool up = sum(x).item() > -1e9f;
        const dim n = x.size(0) / 2, m = y.size(0) / 2;
        return up && n == m ? matrix(slice(x, axis<0>, 0, n) + slice(y, axis<0>, 0, m)) : x;
      },
      {.dynamic = dynamic::yes});
  const matrix x = sample(8, 3, 1), y = sample(9, 3, 2);
  check_same(f(x, y), matrix(slice(x, axis<0>, 0, 4) + slice(y, axis<0>, 0, 4)));
  CHECK_MESSAGE(narrowed(f).empty(), narrowed(f));
  const matrix u = sample(12, 3, 3), v = sample(13, 3, 4);
  check_same(f(u, v), matrix(slice(u, axis<0>, 0, 6) + slice(v, axis<0>, 0, 6)));
  check_same(f(x, sample(12, 3, 5)), x);
}

TEST_CASE("segments for fixed sizes keep to the recompile limit") {
  const auto fn = [](matrix x) {
    const bool up = sum(x).item() > -1e9f;
    const int n = static_cast<int>(x.size(0));
    return up ? matrix(x * static_cast<float>(n)) : x;
  };
  const auto many = [&](const auto& f) {
    for (int n = 2; n < 9; ++n) check_same(f(sample(n, 2, n)), fn(sample(n, 2, n)));
  };
  const auto f = compile(fn, {.recompile_limit = 3, .name = "bounded"});
  const std::string said = stderr_text([&] { many(f); });
  CHECK(contains(said, "bounded: segments between graph breaks are compiled for 3 sets of extents"));
  CHECK(contains(said, "converted to an integer"));
  CHECK(said.find("bounded:") == said.rfind("bounded:"));
  CHECK(contains(said, "no size as an integer"));
  CHECK(contains(said, "breaks_dynamic_test.cpp:"));
  const auto closed = compile(fn, {.dynamic = dynamic::no, .recompile_limit = 3, .name = "closed"});
  CHECK(contains(stderr_text([&] { many(closed); }), "closed: segments"));
  const auto strict = compile(fn, {.recompile_limit = 3, .on_limit = on_limit::error});
  CHECK(contains(error_of([&] { many(strict); }), ".recompile_limit"));
  const auto evicting = compile(fn, {.recompile_limit = 3, .on_limit = on_limit::evict, .name = "evicting"});
  CHECK(stderr_text([&] { many(evicting); }).empty());
}

TEST_CASE("values that become constants of segments are told once") {
  const auto f = compile([](tensor<int, 1> x) { return tensor<int, 1>(x * sum(x).item()); },
                         {.backend = "reference", .name = "constant"});
  const std::string said = stderr_text([&] {
    for (int n = 1; n < 100; ++n) CHECK(f(full<int>(n, 2)).to_vector()[0] == 2 * n * n);
  });
  CHECK(contains(said, "constant: this line of the program has made 64 specialisations beyond the first"));
  CHECK(contains(said, "a number in the graph, 2, 4, 6, 8, 10, 12, 14, 16, ... (at "));
  CHECK(said.find("constant:") == said.rfind("constant:"));
  const auto g = compile([](vector x) { return vector(x * sum(x)) + (sum(x).item() > 50 ? 1.f : 0.f); },
                         {.backend = "reference", .name = "kept"});
  CHECK(stderr_text([&] {
          for (int n = 1; n < 100; ++n) (void)g(full<float>(static_cast<float>(n), 2));
        }).empty());
}

TEST_CASE("threads with sizes of their own in one function with breaks") {
  const auto fn = [](matrix x) {
    const bool up = sum(x).item() > 0;
    const matrix y = softmax(x) / x.size(0);
    return y(0, 0) > 0.2f && up ? matrix(y + 1.f) : y;
  };
  const auto f = compile(fn);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k)
    threads.emplace_back([&, k] {
      for (int call = 0; call < 25; ++call) {
        const matrix x = sample(2 + (call * 3 + k) % 9, 4, call + k);
        const auto got = f(x).to_vector(), want = fn(x).to_vector();
        for (std::size_t i = 0; i < want.size(); ++i) wrong += std::abs(got[i] - want[i]) > 1e-4f;
      }
    });
  for (auto& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(f.specialisations() == 1);
}

TEST_CASE("what throws after a break passes through once, with open sizes too") {
  int begun = 0;
  const auto f = compile(
      [&](matrix x) {
        ++begun;
        if (sum(x).item() > -1e9f && x.size(0) > 3) throw std::runtime_error("too many");
        return matrix(x * 2.f);
      },
      {.dynamic = dynamic::yes});
  CHECK_THROWS_WITH(f(sample(5, 3, 1)), "too many");
  CHECK(begun == 1);
  check_same(f(sample(3, 3, 1)), matrix(sample(3, 3, 1) * 2.f));
  const auto g = compile(
      [&](matrix x, matrix y) {
        ++begun;
        const bool up = sum(x).item() > -1e9f;
        return up ? matrix(x + y) : x;
      },
      {.dynamic = dynamic::yes});
  begun = 0;
  CHECK(!error_of([&] { (void)g(sample(5, 3, 1), sample(6, 3, 1)); }).empty());
  CHECK(begun == 1);
}
