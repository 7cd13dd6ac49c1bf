#include <doctest/doctest.h>

#include <functional>
#include <random>
#include <sinter/sinter.hpp>

#include "../close.hpp"
#include "../front/ops_support.hpp"

using namespace sinter;

namespace {

using matrix = tensor<float, 2>;
using vector = tensor<float, 1>;

matrix sample(dim rows, dim columns, int seed = 1) { return normal<float>(make_key(seed), rows, columns); }

template <class A, class B>
void check_same(const A& a, const B& b) {
  REQUIRE(a.shape() == b.shape());
  check_close(a.to_vector(), b.to_vector(), 1e-4);
}

template <class F, class... T>
auto freshly(const F& fn, const T&... args) {
  return compile(fn, {.dynamic = dynamic::no})(args...);
}

/// fn of matrices with every number of rows, against a program made for that number alone. All numbers of rows share one
/// specialisation, but for 0 and 1; where the function makes tensors of fewer rows, these must not have 0 or 1 either.
template <class F>
void check_rows(const std::string& name, F fn, std::initializer_list<int> rows = {6, 4, 9, 33, 64, 2}) {
  CAPTURE(name);
  const auto f = compile(fn, {.dynamic = dynamic::yes});
  for (const int n : rows) {
    CAPTURE(n);
    const auto x = sample(n, 5, n);
    check_same(f(x), freshly(fn, x));
  }
  CHECK(f.specialisations() == 1);
}

}  // namespace

TEST_CASE("an extent that changes becomes a symbol: all others but 0 and 1 need nothing new") {
  const auto fn = [](matrix x, vector b) { return relu(x * 2.f + b); };
  const auto f = compile(fn);
  const auto b = sample(1, 5)(0, 0) + arange<float>(5);
  std::size_t expected[] = {1, 2, 2, 2, 3, 4, 4, 4, 4};
  int k = 0;
  for (const int n : {7, 3, 100, 2, 1, 0, 5, 1, 7}) {
    const auto x = sample(n, 5, n);
    check_same(f(x, b), freshly(fn, x, b));
    CHECK(f.specialisations() == expected[k++]);
  }
  const auto fixed = compile(fn, {.dynamic = dynamic::no});
  for (const int n : {7, 3, 100}) (void)fixed(sample(n, 5), b);
  CHECK(fixed.specialisations() == 3);
}

TEST_CASE("ops keep extents open") {
  check_rows("pointwise", [](matrix x) { return (exp(x) + 1.f).eval(); });
  check_rows("sum of rows", [](matrix x) { return sum(x, axis<1>); });
  check_rows("sum of columns", [](matrix x) { return sum(x, axis<0>); });
  check_rows("sum of all", [](matrix x) { return sum(x, keepdims); });
  check_rows("mean", [](matrix x) { return mean(x, axis<0>); });
  check_rows("var", [](matrix x) { return var(x, axis<0>); });
  check_rows("std", [](matrix x) { return sinter::std(x, axis<0>, keepdims); });
  check_rows("norm", [](matrix x) { return norm(x); });
  check_rows("max", [](matrix x) { return max(x, axis<0>); });
  check_rows("argmax", [](matrix x) { return argmax(x, axis<0>); });
  check_rows("argmax of all", [](matrix x) { return argmax(x); });
  check_rows("logsumexp", [](matrix x) { return logsumexp(x, axis<0>); });
  check_rows("softmax", [](matrix x) { return softmax<0>(x); });
  check_rows("layer_norm", [](matrix x) { return layer_norm(x); });
  check_rows("matmul", [](matrix x) { return matmul(transpose(x), x); });
  check_rows("outer matmul", [](matrix x) { return matmul(x, transpose(x)); });
  check_rows("einsum", [](matrix x) { return einsum<"ij,kj->ik">(x, x); });
  check_rows("transpose", [](matrix x) { return (transpose(x) + 1.f).eval(); });
  check_rows("flatten", [](matrix x) { return (flatten(x) * 2.f).eval(); });
  check_rows("reshape", [](matrix x) { return (reshape(x, {5, -1}) * 2.f).eval(); });
  check_rows("reshape to a size", [](matrix x) { return (reshape(x, x.size(1), x.size(0)) * 2.f).eval(); });
  check_rows("broadcast_to", [](matrix x) { return (broadcast_to(sum(x, axis<0>), {x.size(0), 5}) + x).eval(); });
  check_rows("concat", [](matrix x) { return concat(x, x * 2.f); });
  check_rows("stack", [](matrix x) { return stack(x, x * 2.f); });
  check_rows("pad", [](matrix x) { return pad(x, {{1, 2}, {0, 1}}); });
  check_rows("tile", [](matrix x) { return tile(x, {2, 3}); });
  check_rows("flip", [](matrix x) { return (flip<0>(x) + x).eval(); });
  check_rows("last row", [](matrix x) { return (slice<0>(x, -1) * 2.f).eval(); });
  check_rows("rows from the first", [](matrix x) { return (slice<0>(x, 1) * 2.f).eval(); }, {6, 4, 9, 33, 3});
  check_rows("shifted rows", [](matrix x) { return (slice<0>(x, 1) - slice<0>(x, 0, -1)).eval(); }, {6, 4, 9, 33, 3});
  check_rows("half of the rows", [](matrix x) { return (slice<0>(x, 0, x.size(0) / 2) * 2.f).eval(); },
             {6, 4, 9, 33, 64});
  check_rows("the other rows", [](matrix x) { return (slice<0>(x, (x.size(0) + 1) / 2) * 2.f).eval(); },
             {6, 4, 9, 33, 64});
  check_rows("every third row", [](matrix x) { return (slice<0>(x, 0, x.size(0), 3) * 2.f).eval(); },
             {6, 4, 9, 33, 64, 7});
  check_rows("pairs of rows",
             [](matrix x) {
               const dim n = x.size(0) / 2;
               return (slice<0>(x, 0, 2 * n, 2) + slice<0>(x, 1, 2 * n, 2) * slice<0>(x, n, 2 * n)).eval();
             },
             {6, 4, 9, 33, 64});
  check_rows("rows after a multiple",
             [](matrix x) {
               const dim rest = x.size(0) % 4;
               return concat(slice<0>(x, 0, x.size(0) - rest) * 2.f, x);
             },
             {6, 9, 33, 64, 7});
  check_rows("split", [](matrix x) { return split<1>(x, 5)[2] + 0.f; });
  check_rows("take", [](matrix x) { return take(x, cast<std::int64_t>(arange<float>(x.size(0)) * 0.5f)); });
  check_rows("take_along_axis", [](matrix x) { return take_along_axis(x, argmax(x, axis<0>, keepdims), axis<0>); });
  check_rows("one_hot", [](matrix x) { return one_hot(argmax(x, axis<1>), x.size(0)); });
  check_rows("scatter_add",
             [](matrix x) { return scatter_add(zeros<float>(x.size(0), 5), argmax(x, axis<1>) * 0, x); });
  check_rows("cumsum", [](matrix x) { return cumsum<0>(x); });
  check_rows("zeros", [](matrix x) { return (zeros<float>(x.size(0), 3) + 1.f).eval(); });
  check_rows("zeros_like", [](matrix x) { return zeros_like(x); });
  check_rows("arange", [](matrix x) { return (x + expand_dims<1>(arange<float>(x.size(0)))).eval(); });
  check_rows("eye", [](matrix x) { return matmul(eye<float>(x.size(0)), x); });
  check_rows("tril", [](matrix x) { return tril(x).eval(); });
  check_rows("uniform", [](matrix x) { return uniform<float>(make_key(3), x.size(0), 2); });
  check_rows("a size as a value", [](matrix x) { return (x * x.size(0) + x.size(0)).eval(); });
  check_rows("arithmetic on sizes",
             [](matrix x) { return (zeros<float>(2 * x.size(0) + 1, 3) + x.size(0) * x.size(1)).eval(); });
}

TEST_CASE("what was learnt of two sizes holds for slices, pads and factories, and their derivatives") {
  // Two that are equal in the call that is traced share a symbol: one specialisation more.
  const auto f = [](const std::string& name, auto fn, std::size_t most) {
    CAPTURE(name);
    const auto f = compile(fn, {.dynamic = dynamic::yes});
    for (const auto& [n, m] : {std::pair{4, 6}, {5, 8}, {9, 8}, {20, 7}, {7, 7}, {2, 3}, {33, 64}}) {
      const vector x = uniform<float>(make_key(n), n), y = uniform<float>(make_key(m), m);
      check_same(f(x, y), fn(x, y));
    }
    CHECK(f.specialisations() <= most + 1);
  };
  f(
      "the first of both",
      [](vector x, vector y) {
        const dim n = min(x.size(0), y.size(0));
        return (slice<0>(x, 0, n) + slice<0>(y, 0, n)).eval();
      },
      2);
  f(
      "the last of both",
      [](vector x, vector y) {
        const dim n = min(x.size(0), y.size(0));
        return (slice<0>(x, x.size(0) - n, x.size(0)) * flip(slice<0>(flip(y), 0, n))).eval();
      },
      2);
  f(
      "the gradient of the first of both",
      [](vector x, vector y) {
        return grad([&](vector a) {
          const dim n = min(a.size(0), y.size(0));
          return sum(exp(slice<0>(a, 0, n)) * slice<0>(y, 0, n));
        })(x);
      },
      2);
  f(
      "padded to the longer",
      [](vector x, vector y) {
        const dim n = max(x.size(0), y.size(0));
        return (pad(x, {{0, n - x.size(0)}}) + concat(y, full<float>(1.5f, n - y.size(0)))).eval();
      },
      2);
  f(
      "as many as it is longer",
      [](vector x, vector y) {
        return x.size(0) < y.size(0) ? arange<float>(y.size(0) - x.size(0)) : (x * 2.f).eval();
      },
      3);
  f(
      "by a quotient",
      [](vector x, vector) { return (slice<0>(x, 0, x.size(0) * x.size(0) / (x.size(0) + 1)) * 2.f).eval(); }, 1);
  f(
      "after a read",
      [](vector x, vector y) {
        const dim n = min(x.size(0), y.size(0));
        if (sum(x).item() > -5) x = x * 2.f;
        return (slice<0>(x, 0, n) + slice<0>(y, 0, n)).eval();
      },
      1);
}

TEST_CASE("what a comparison of sizes allowed is refused where it does not hold") {
  const auto f = [](auto fn, const char* says) {
    const auto f = compile(fn, {.dynamic = dynamic::yes});
    for (const auto& p : {std::pair{6, 4}, {9, 3}, {4, 6}, {8, 8}, {2, 9}, {5, 3}}) {
      const int n = p.first, m = p.second;
      CAPTURE(n);
      CAPTURE(m);
      const vector x = uniform<float>(make_key(n), n), y = uniform<float>(make_key(m), m);
      if (n < m) CHECK(ops::contains(ops::error_of([&] { f(x, y); }), says));
      else check_same(f(x, y), fn(x, y));
    }
  };
  f([](vector x, vector y) { return full<float>(1.5f, x.size(0) - y.size(0)); }, "extents must not be negative");
  f([](vector x, vector y) { return pad(x, {{0, x.size(0) - y.size(0)}}); }, "a width is negative");
  f([](vector x, vector y) { return broadcast_to(tensor<float, 1>{2.f}, x.size(0) - y.size(0)); },
    "an extent is negative");
}

TEST_CASE("derivatives keep extents open") {
  const auto loss = [](matrix w, matrix x, tensor<std::int64_t, 1> y) { return cross_entropy(matmul(x, w), y); };
  const auto step = [&](matrix w, matrix x, tensor<std::int64_t, 1> y) {
    auto [l, g] = value_and_grad(loss)(w, x, y);
    return std::tuple{l, (w - 0.1f * g).eval()};
  };
  const auto f = compile(step);
  for (const int n : {4, 7, 2, 33, 64}) {
    const auto w = sample(5, 3), x = sample(n, 5, n);
    const auto y = randint<std::int64_t>(make_key(n), 0, 3, n);
    const auto [l, next] = f(w, x, y);
    const auto [want_l, want] = freshly(step, w, x, y);
    check_same(l, want_l);
    check_same(next, want);
  }
  CHECK(f.specialisations() == 2);
  check_rows("of a mean", [](matrix x) { return grad([](matrix a) { return mean(a * a); })(x); });
  check_rows("of a slice", [](matrix x) { return grad([](matrix a) { return sum(exp(slice<0>(a, 1))); })(x); },
             {6, 4, 9, 33, 3});
  check_rows("of half of the rows",
             [](matrix x) { return grad([](matrix a) { return sum(exp(slice<0>(a, 0, a.size(0) / 2))); })(x); },
             {6, 4, 9, 33, 64});
  check_rows("of every second row",
             [](matrix x) { return grad([](matrix a) { return sum(exp(slice<0>(a, 1, a.size(0), 2))); })(x); },
             {6, 4, 9, 33, 64});
  check_rows("of a concatenation", [](matrix x) { return grad([](matrix a) { return sum(exp(concat(a, a))); })(x); });
  check_rows("of a cumsum", [](matrix x) { return grad([](matrix a) { return sum(exp(cumsum<0>(a))); })(x); });
  check_rows("of a max", [](matrix x) { return grad([](matrix a) { return sum(max(a, axis<0>)); })(x); });
}

TEST_CASE("rows are kept, or turned in tiles, whatever lengths come after those that were traced") {
  const auto soft = [](matrix x) { return softmax(x * 0.5f); };
  const auto turned = [](matrix x, matrix y) { return (transpose(x) + y).eval(); };
  const auto f = compile(soft, {.dynamic = dynamic::yes});
  const auto g = compile(turned, {.dynamic = dynamic::yes});
  for (const auto& size : {std::pair{30, 40}, {3, 5000}, {2, 32768}, {3, 40000}, {70, 16}, {17, 33}}) {
    const int rows = size.first, columns = size.second;
    CAPTURE(columns);
    const auto x = sample(rows, columns), y = sample(columns, rows, 2);
    check_same(f(x), freshly(soft, x));
    check_same(g(x, y), freshly(turned, x, y));
  }
  CHECK(f.specialisations() == 1);
  CHECK(g.specialisations() == 1);
}

TEST_CASE("shapes in any order give what a program of their own gives") {
  const auto fn = [](matrix x, matrix w, vector b) { return layer_norm(relu(matmul(x, w) + b)); };
  const auto f = compile(fn, {.recompile_limit = 100});
  std::mt19937 random(7);
  const int extents[] = {0, 1, 2, 3, 16, 17, 40};
  for (int round = 0; round < 60; ++round) {
    const auto pick = [&] { return extents[random() % std::size(extents)]; };
    const int n = pick(), k = pick(), m = std::max(pick(), 1);
    CAPTURE(n);
    CAPTURE(k);
    CAPTURE(m);
    const auto x = sample(n, k, round), w = sample(k, m, round + 1);
    const auto b = sum(sample(2, m, round), axis<0>);
    check_same(f(x, w, b), fn(x, w, b));
  }
  CHECK(f.specialisations() < 40);
}

TEST_CASE("extents that share a symbol are guarded to be equal") {
  const auto fn = [](vector x, vector y) { return std::pair{sum(x) * 2.f, sum(y) * x.size(0)}; };
  const auto f = compile(fn, {.dynamic = dynamic::yes});
  const auto check = [&](int n, int m) {
    const vector x = arange<float>(n), y = arange<float>(m) + 1.f;
    const auto [a, b] = f(x, y);
    CHECK(a.item() == doctest::Approx(n * (n - 1)));
    CHECK(b.item() == doctest::Approx(m * (m + 1) / 2.0 * n));
  };
  check(4, 4);
  check(9, 9);
  CHECK(f.specialisations() == 1);
  check(5, 7);
  check(7, 5);
  check(6, 6);
  CHECK(f.specialisations() == 2);
}

TEST_CASE("a comparison of sizes branches and is guarded") {
  const auto fn = [](matrix x) {
    if (x.size(0) > 10) return (x * 2.f).eval();
    return (x + 1.f).eval();
  };
  const auto f = compile(fn, {.dynamic = dynamic::yes});
  for (const int n : {4, 100, 10, 11, 12, 5, 64, 2}) {
    const auto x = sample(n, 3, n);
    check_same(f(x), fn(x));
  }
  CHECK(f.specialisations() == 2);
  const auto even = [](vector x) {
    return x.size(0) % 2 == 0 ? (reshape(x, {2, -1}) * 2.f).eval() : reshape(x, {1, -1});
  };
  const auto g = compile(even, {.dynamic = dynamic::yes});
  for (const int n : {6, 8, 9, 33, 10, 7}) {
    const auto x = arange<float>(n);
    check_same(g(x), even(x));
  }
  CHECK(g.specialisations() == 2);
  const auto related = [](vector x, vector y) { return x.size(0) == 2 * y.size(0) ? sum(x) : sum(y); };
  const auto h = compile(related, {.dynamic = dynamic::yes});
  for (const auto& [n, m] : {std::pair{8, 4}, {6, 3}, {9, 4}, {10, 5}, {5, 9}}) {
    const vector x = arange<float>(n), y = arange<float>(m) + 5.f;
    check_same(h(x, y), related(x, y));
  }
  CHECK(h.specialisations() == 2);
}

TEST_CASE("numbers of a call and sizes make numbers that both are read for") {
  const auto scaled = [](vector x, auto r) { return (x * (r * x.size(0)) + r / x.size(0) - (x.size(0) + r)).eval(); };
  const auto f = compile(scaled, {.dynamic = dynamic::yes});
  for (const int n : {4, 5, 6, 7, 64, 2})
    for (const float r : {0.5f, 0.25f, 3.f}) check_same(f(arange<float>(n), r), scaled(arange<float>(n), r));
  CHECK(f.specialisations() == 1);
  // A condition of them holds for this size and this number alone.
  const auto branch = [](vector x, auto r) { return r * x.size(0) > 3 ? (x * 2.f).eval() : (x + 1.f).eval(); };
  const auto g = compile(branch, {.dynamic = dynamic::yes});
  for (const int n : {4, 5, 20, 4, 7})
    for (const float r : {0.5f, 0.75f, 0.1f}) check_same(g(arange<float>(n), r), branch(arange<float>(n), r));
  const auto read = compile(
      [](vector x, auto r) {
        const float s = sum(x).item();
        return (x * float(r * x.size(0)) + s * (r - x.size(0))).eval();
      },
      {.dynamic = dynamic::yes});
  for (const int n : {4, 5, 20, 4})
    for (const float r : {0.5f, 0.75f}) {
      const vector x = arange<float>(n);
      check_same(read(x, r), (x * (r * float(n)) + float(n * (n - 1) / 2) * (r - float(n))).eval());
    }
}

TEST_CASE("an equation that no size follows from is a guard") {
  const auto third = [](vector x) { return x.size(0) % 3 == 1 ? (x * 2.f).eval() : (x + 1.f).eval(); };
  const auto fours = [](vector x) { return x.size(0) / 4 == 5 ? (x * 2.f).eval() : (x + 1.f).eval(); };
  for (const auto& fn : {std::function<vector(vector)>(third), std::function<vector(vector)>(fours)}) {
    const auto f = compile(fn, {.dynamic = dynamic::yes});
    for (const int n : {7, 10, 9, 13, 20, 21, 22, 25, 8, 4, 100}) check_same(f(arange<float>(n)), fn(arange<float>(n)));
    CHECK(f.specialisations() <= 3);  // multiples are one of their own
  }
  const auto rows = [](vector x) {
    const dim n = x.size(0);
    return n / 3 * 3 != n ? (x * 2.f).eval() : vector(sum(reshape(x, n / 3, 3), axis<1>));
  };
  const auto multiples = compile(rows, {.dynamic = dynamic::yes});
  for (const int n : {9, 12, 33, 10, 64, 6, 7}) check_same(multiples(arange<float>(n)), rows(arange<float>(n)));
  CHECK(multiples.specialisations() == 2);
  // Shapes that need it get numbers, after a read where they are.
  for (const bool reads : {false, true}) {
    CAPTURE(reads);
    const auto halves = [reads](vector x, vector y) {
      if (reads && sum(x).item() < -1e9f) return x;
      const dim n = x.size(0) / 2, m = y.size(0) / 2;
      return n == m ? (slice<0>(x, 0, n) + slice<0>(y, 0, m)).eval() : (x * 2.f).eval();
    };
    const auto f = compile(halves, {.dynamic = dynamic::yes});
    for (const auto& [n, m] : {std::pair{8, 9}, {9, 8}, {5, 9}, {4, 5}, {33, 7}, {2, 3}}) {
      const vector x = arange<float>(n), y = arange<float>(m) + 5.f;
      check_same(f(x, y), halves(x, y));
    }
  }
}

TEST_CASE("operands whose sizes were found equal fit one another") {
  const auto fn = [](matrix x, matrix y, matrix z) { return (concat(x, y) + z).eval(); };
  const auto f = compile(fn, {.dynamic = dynamic::yes});
  for (const auto& [n, m] : {std::pair{3, 4}, {5, 2}, {20, 7}}) {
    const auto x = sample(n, 6), y = sample(m, 6, 2), z = sample(n + m, 6, 3);
    check_same(f(x, y, z), fn(x, y, z));
  }
  CHECK(f.specialisations() <= 2);
}

TEST_CASE("an extent that becomes an integer specialises") {
  const auto fn = [](vector x) {
    const int n = x.size(0);
    vector y = x;
    for (int i = 0; i < n; ++i) y = y + 1.f;
    return y;
  };
  const auto f = compile(fn, {.dynamic = dynamic::yes});
  for (const int n : {3, 5, 3})
    CHECK(f(zeros<float>(n)).to_vector() == std::vector<float>(static_cast<std::size_t>(n), n));
  CHECK(f.specialisations() == 2);
  // A loop up to a size compares it again and again.
  const auto g = compile(
      [](vector x) {
        vector y = x;
        for (int i = 0; i < x.size(0); ++i) y = y + 1.f;
        return y;
      },
      {.dynamic = dynamic::yes});
  for (const int n : {3, 20, 30})
    CHECK(g(zeros<float>(n)).to_vector() == std::vector<float>(static_cast<std::size_t>(n), n));
}

TEST_CASE("marks") {
  const auto fn = [](matrix x) { return sum(x, axis<0>); };
  auto x = sample(7, 5);
  mark_dynamic(x, 0, {2, 50});
  const auto f = compile(fn);
  check_same(f(x), fn(x));
  check_same(f(sample(9, 5)), fn(sample(9, 5)));
  CHECK(f.specialisations() == 1);
  check_same(f(sample(51, 5)), fn(sample(51, 5)));
  CHECK(f.specialisations() == 2);
  auto y = sample(6, 5);
  mark_static(y, 0);
  const auto g = compile(fn, {.dynamic = dynamic::yes});
  check_same(g(y), fn(y));
  check_same(g(sample(9, 5)), fn(sample(9, 5)));
  CHECK(g.specialisations() == 2);
  CHECK(ops::contains(ops::error_of([&] { mark_dynamic(x, 0, {10, 20}); }), "which is not from 10 to 20"));
  CHECK(ops::contains(ops::error_of([&] { mark_dynamic(x, 2); }), "axis 2"));
}

TEST_CASE("layouts of open tensors") {
  const auto fn = [](matrix x) { return (x * 2.f + sum(x, axis<0>)).eval(); };
  const auto f = compile(fn, {.dynamic = dynamic::yes});
  for (const int n : {4, 7, 20}) {
    const auto x = sample(5, n, n);
    check_same(f(transpose(x)), fn(transpose(x)));
  }
  CHECK(f.specialisations() == 1);
  for (const int n : {4, 7, 20}) {
    const auto x = slice<1>(sample(n, 9, n), 2, 7);
    check_same(f(x), fn(x));
  }
  CHECK(f.specialisations() == 2);
}

TEST_CASE("donated memory is reused for every size") {
  const auto f = compile([](matrix x) { return (x * 2.f).eval(); }, {.dynamic = dynamic::yes, .donate = {0}});
  for (const int n : {4, 7, 20}) {
    auto x = ones<float>(n, 3);
    const float* const place = x.data();
    const auto y = f(std::move(x));
    CHECK(y.data() == place);
    CHECK(sum(y).item() == n * 6);
  }
  CHECK(f.specialisations() == 1);
}

TEST_CASE("the interpreter follows sizes") {
  for (const char* backend : {"reference", "aot_reference"}) {
    const auto fn = [](matrix x) { return softmax<0>(x * x.size(0)); };
    const auto f = compile(fn, {.dynamic = dynamic::yes, .backend = backend});
    for (const int n : {4, 7, 20}) check_same(f(sample(n, 3, n)), fn(sample(n, 3, n)));
    CHECK(f.specialisations() == 1);
  }
}

TEST_CASE("sizes do not outlive their trace") {
  dim leaked;
  const auto f = compile(
      [&](vector x) {
        leaked = x.size(0) + 1;
        return (x * 2.f).eval();
      },
      {.dynamic = dynamic::yes});
  (void)f(zeros<float>(5));
  CHECK(leaked.is_symbolic());
  CHECK(ops::contains(ops::error_of([&] { (void)(leaked + 1); }), "after its trace ended"));
  CHECK(ops::contains(ops::error_of([&] { (void)zeros<float>(leaked); }), "after its trace ended"));
}

TEST_CASE("what cannot be done is an error with numbers") {
  const auto f = compile([](matrix x, matrix y) { return (x + y).eval(); }, {.dynamic = dynamic::yes});
  const auto message = ops::error_of([&] { (void)f(sample(3, 4), sample(5, 4)); });
  CHECK(ops::contains(message, "(3, 4)"));
  CHECK(ops::contains(message, "(5, 4)"));
}

TEST_CASE("an axis that is empty at some sizes") {
  const auto rest = [](const matrix& x) { return slice<0>(x, 2, x.size(0)); };
  const auto rows = [](matrix x) { return slice<0>(x, 0, 2); };
  const tensor<std::int64_t, 1> index{1, 0};
  const auto read = compile([&](matrix x) { return take(rest(x), index); }, {.dynamic = dynamic::yes});
  const auto along =
      compile([&](matrix x) { return take_along_axis(rest(x), cast<std::int64_t>(rows(x)) * 0, axis<0>); },
              {.dynamic = dynamic::yes});
  const auto first = compile([&](matrix x) { return argmax(rest(x), axis<0>); }, {.dynamic = dynamic::yes});
  const auto most = compile([&](matrix x) { return max(rest(x), axis<0>); }, {.dynamic = dynamic::yes});
  // What is dropped has no derivative; there is nothing to read it from either.
  const auto added = [&](matrix x) { return sum(exp(scatter_add(rest(x), index, rows(x)))) + sum(rows(x)); };
  const auto slope = compile([&](matrix x) { return grad(added)(x); }, {.dynamic = dynamic::yes});
  for (const int n : {5, 9, 2, 4, 2}) {
    CAPTURE(n);
    const auto x = sample(n, 3, n);
    if (n > 2) {
      check_same(read(x), take(rest(x), index % (n - 2)));
      check_same(most(x), max(rest(x), axis<0>));
      check_same(slope(x), freshly(grad(added), x));
      continue;
    }
    CHECK(ops::contains(ops::error_of([&] { (void)read(x); }), "[take] axis 0 of (0, 3) is empty"));
    CHECK(ops::contains(ops::error_of([&] { (void)along(x); }), "[take_along_axis] axis 0 of (0, 3) is empty"));
    CHECK(ops::contains(ops::error_of([&] { (void)first(x); }), "[argmax] axis 0 of (0, 3) is empty"));
    CHECK(ops::contains(ops::error_of([&] { (void)most(x); }), "[max] of nothing: axis 0 of (0, 3) is empty"));
    check_same(slope(x), ones<float>(2, 3));
  }
  CHECK(read.specialisations() == 1);
}

TEST_CASE("extents outside a trace are numbers") {
  const matrix x = zeros<float>(3, 4);
  const dim n = x.size(0);
  CHECK(!n.is_symbolic());
  CHECK(n == 3);
  CHECK(4 > n);
  CHECK(n * 2 - 1 == 5);
  CHECK(7 / n == 2);
  CHECK(7 % n == 1);
  CHECK(-n == -3);
  CHECK(min(n, 2) == 2);
  CHECK(n.text() == "3");
  const std::int64_t i = n;
  CHECK(i == 3);
  CHECK(1.5 * n == 4.5);
  CHECK(dim(INT64_MIN) / -1 == INT64_MIN);
  CHECK(dim(INT64_MIN) % -1 == 0);
}

TEST_CASE("an extent of 0 is divided by an open one, also after a read") {
  for (const auto how : {dynamic::yes, dynamic::automatic}) {
    const auto whole = compile(
        [](vector x, vector y) {
          const dim n = x.size(0), m = y.size(0) + 1;
          return zeros<float>(1 + n % m + 100 * (n / m));
        },
        {.dynamic = how});
    const auto read = compile(
        [](vector x, vector y) {
          if (sum(y).item() > 1e9f) y = y * 2.f;
          return y + x.size(0) % (y.size(0) + 1) + x.size(0) / (y.size(0) + 1);
        },
        {.dynamic = how});
    for (const auto& extents : {std::pair{3, 8}, {8, 3}, {0, 8}, {8, 0}, {0, 5}, {0, 0}, {12, 5}}) {
      const int n = extents.first, m = extents.second;
      CAPTURE(n);
      CAPTURE(m);
      CHECK(whole(ops::sample<float, 1>({n}), ops::sample<float, 1>({m})).size(0) ==
            1 + n % (m + 1) + 100 * (n / (m + 1)));
      const vector y = ops::sample<float, 1>({m}, 3);
      const vector got = read(ops::sample<float, 1>({n}), y), want = y + float(n % (m + 1)) + float(n / (m + 1));
      CHECK(got.to_vector() == want.to_vector());
    }
  }
}

TEST_CASE("what has no element is not read, whichever other extents are open") {
  const auto sums = [](const matrix& x) { return sum(sin(sum(x, axis<0>, keepdims))); };
  const auto joined = [](const matrix& x) { return sum(sin(concat<0>(x, x))) + sum(x * 2.f); };
  for (const auto how : {dynamic::yes, dynamic::no, dynamic::automatic}) {
    const auto f = compile(sums, {.dynamic = how});
    const auto g = compile(joined, {.dynamic = how});
    const auto df = compile(value_and_grad(sums), {.dynamic = how});
    const auto dg = compile(value_and_grad(joined), {.dynamic = how});
    const std::array<std::int64_t, 2> all[] = {{16, 0}, {0, 1}, {0, 16}, {5, 0}, {0, 0}};
    for (const auto& extents : all) {
      CAPTURE(extents[0]);
      CAPTURE(extents[1]);
      const auto x = zeros<float>(extents[0], extents[1]);
      CHECK(f(x).item() == 0);
      CHECK(g(x).item() == 0);
      const auto [value, slope] = df(x);
      CHECK(value.item() == 0);
      CHECK(slope.shape() == x.shape());
      const auto [other, slope2] = dg(x);
      CHECK(other.item() == 0);
      CHECK(slope2.shape() == x.shape());
    }
    check_same(f(sample(3, 4)), sums(sample(3, 4)));
  }
}

TEST_CASE("a division by an extent of 0 is an error, whichever call is the first to have it") {
  const auto said = [](auto&& f) { return ops::error_of([&] { (void)f(); }); };
  CHECK(ops::contains(said([] { return dim(12) / dim(0); }), "[size] 12 is divided by an extent of 0"));
  CHECK(ops::contains(said([] { return dim(12) % dim(0); }), "[size] 12 is divided by an extent of 0"));
  CHECK(ops::contains(said([] { return dim(INT64_MAX) + 1; }),
                      "[size] 9223372036854775807 + 1 is beyond what an extent may be"));
  CHECK(ops::contains(said([] { return dim(INT64_MIN) - 1; }), "- 1 is beyond what an extent may be"));
  CHECK(ops::contains(said([] { return dim(std::int64_t{1} << 62) * 4; }), "* 4 is beyond what an extent may be"));
  // Nor may a result be what stands for a symbolic size.
  CHECK(ops::contains(said([] { return dim(std::int64_t{3} << 60) * -2; }), "* -2 is beyond what an extent may be"));
  for (const auto how : {dynamic::yes, dynamic::no, dynamic::automatic}) {
    const auto f = compile([](vector x, vector y) { return zeros<float>(12 / (x.size(0) - 3) + 8 % y.size(0)); },
                           {.dynamic = how});
    CHECK(f(zeros<float>(5), zeros<float>(3)).size(0) == 8);
    CHECK(f(zeros<float>(7), zeros<float>(5)).size(0) == 6);
    CHECK(ops::contains(said([&] { return f(zeros<float>(3), zeros<float>(5)); }), "is divided by"));
    CHECK(ops::contains(said([&] { return f(zeros<float>(7), zeros<float>(0)); }), "is divided by"));
    CHECK(f(zeros<float>(9), zeros<float>(6)).size(0) == 4);
  }
}
