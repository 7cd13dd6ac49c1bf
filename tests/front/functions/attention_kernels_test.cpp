// attention as kernels of the CPU: their number, values and gradients beside the interpreter's, and what is composed instead.
#include <array>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../../ir/attention_texts.hpp"

using namespace sinter;

namespace {

using four = tensor<float, 4>;
using real = tensor<float, 0>;
using halves = tensor<bf16, 4>;

/// Kernels wherever a recipe takes attention: small sizes would be composed.
[[maybe_unused]] const int everywhere = ::setenv("SINTER_ATTENTION", "kernels", 1);

constexpr float inf = std::numeric_limits<float>::infinity();

four numbers(std::uint64_t key, std::int64_t h, std::int64_t n, std::int64_t d) {
  return normal<float>(make_key(key), 2, h, n, d);
}

struct counts {
  std::size_t forward = 0, backward = 0;
};
counts count_kernels(const explanation& r, std::size_t which = 0) {
  counts out;
  for (const auto& s : r.specialisations[which].what.steps) {
    out.forward += s.name == "attention";
    out.backward += s.name == "attention_back";
  }
  return out;
}

/// The greatest distance, relative to the greatest element; not finite elements must be equal.
template <class X, class Y>
double distance(const X& a, const Y& b) {
  const auto x = a.to_vector(), y = b.to_vector();
  REQUIRE(x.size() == y.size());
  double most = 0, size = 1e-30;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double p = static_cast<double>(x[i]), q = static_cast<double>(y[i]);
    if (std::isfinite(p) && std::isfinite(q)) {
      most = std::max(most, std::fabs(p - q));
      size = std::max(size, std::fabs(q));
    } else if (!(std::isnan(p) && std::isnan(q)) && p != q) {
      return inf;
    }
  }
  return most / size;
}

/// Values and gradients on the CPU beside those of the interpreter, and the number of kernels.
template <class F>
void agree(const char* name, const F& f, const four& q, const four& k, const four& v, counts want,
           double tolerance = 2e-5) {
  CAPTURE(std::string(name));
  const auto gradients = grad<0, 1, 2>([f](four a, four b, four c) { return real(sum(sin(f(a, b, c)))); });
  const auto on_cpu = compile(f), by_hand = compile(f, {.backend = "reference"});
  const auto back = compile(gradients), back_by_hand = compile(gradients, {.backend = "reference"});
  const counts forward = count_kernels(explain(on_cpu)(q, k, v)), both = count_kernels(explain(back)(q, k, v));
  CHECK(forward.forward == want.forward);
  CHECK(forward.backward == 0);
  CHECK(both.forward == want.forward);
  CHECK(both.backward == want.backward);
  CHECK(distance(on_cpu(q, k, v), by_hand(q, k, v)) <= tolerance);
  const auto [a, b, c] = back(q, k, v);
  const auto [x, y, z] = back_by_hand(q, k, v);
  CHECK(distance(a, x) <= tolerance);
  CHECK(distance(b, y) <= tolerance);
  CHECK(distance(c, z) <= tolerance);
  const auto [again, other, last] = back(q, k, v);
  CHECK(distance(a, again) == 0);
  CHECK(distance(b, other) == 0);
  CHECK(distance(c, last) == 0);
}

}  // namespace

TEST_CASE("attention with its options is one kernel, and its gradient two more") {
  const four q = numbers(1, 4, 70, 16), k = numbers(2, 4, 70, 16), v = numbers(3, 4, 70, 24);
  const tensor<bool, 2> mask = uniform<float>(make_key(9), 70, 70) > 0.3f;
  const tensor<float, 1> slope = uniform<float>(make_key(8), 4);
  agree("plain", [](four a, four b, four c) { return attention(a, b, c); }, q, k, v, {1, 2});
  agree("causal", [](four a, four b, four c) { return attention(a, b, c, causal); }, q, k, v, {1, 2});
  agree("sliding", [](four a, four b, four c) { return attention(a, b, c, sliding<20>); }, q, k, v, {1, 2});
  agree("both", [](four a, four b, four c) { return attention(a, b, c, causal, sliding<9>); }, q, k, v, {1, 2});
  agree("masked", [mask](four a, four b, four c) { return attention(a, b, c, masked(mask)); }, q, k, v, {1, 2});
  agree("scaled", [](four a, four b, four c) { return attention(a, b, c, scaled(0.4)); }, q, k, v, {1, 2});
  agree("capped",
        [](four a, four b, four c) {
          return attention(a, b, c, causal,
                           scored([](auto s, auto, auto, auto, auto) { return tanh(s / 5.0f) * 5.0f; }));
        },
        q, k, v, {1, 2});
  agree("places",
        [slope](four a, four b, four c) {
          return attention(a, b, c, scored([slope](auto s, auto, auto, auto i, auto j) {
                             return s + reshape(slope, 1, 4, 1, 1) * cast<float>(j - i);
                           }));
        },
        q, k, v, {1, 2});
}

TEST_CASE("attention in users' words becomes the same kernels, in derivatives, too") {
  const four q = numbers(1, 4, 64, 16), k = numbers(2, 4, 64, 16), v = numbers(3, 4, 64, 16);
  const attention_texts::extras more{uniform<float>(make_key(9), 64, 64) > 0.2f, normal<float>(make_key(4), 64, 64),
                                     cast<std::int64_t>(uniform<float>(make_key(5), 2, 64) * 4.0f),
                                     full<std::int64_t>(40, {2}),
                                     cast<float>(uniform<float>(make_key(6), 2, 4, 64, 64) > 0.1f)};
  for (const auto& t : attention_texts::found) {
    const std::string name = t.name;
    const bool half = name.find("bf16") != std::string::npos, dropped = name.find("dropout") != std::string::npos;
    // Factors of the numerators have no kernel.
    const counts want = dropped || name == "gated weights" ? counts{0, 0} : counts{1, 2};
    agree(
        t.name, [of = t.of, more](four a, four b, four c) { return of(a, b, c, more); }, q, k, v, want,
        half ? 3e-2 : 5e-5);
  }
  for (const auto& t : attention_texts::missed) {
    CAPTURE(std::string(t.name));
    const auto f = [of = t.of, more](four a, four b, four c) { return of(a, b, c, more); };
    CHECK(count_kernels(explain(compile(f))(q, k, v)).forward == 0);
  }
}

TEST_CASE("odd lengths, grouped heads and keys of a cache") {
  const auto plain = [](four a, four b, four c) { return attention(a, b, c, causal); };
  const auto all = [](four a, four b, four c) { return attention(a, b, c); };
  struct sizes {
    std::int64_t heads, groups, queries, keys, features, values;
  };
  for (const sizes& e : {sizes{1, 1, 48, 48, 8, 8},
                         {3, 3, 65, 129, 17, 9},
                         {2, 2, 130, 70, 33, 40},
                         {4, 2, 67, 91, 16, 16},
                         {6, 1, 64, 128, 64, 64},
                         {1, 1, 200, 300, 70, 130}}) {
    CAPTURE(e.queries);
    const four q = numbers(1, e.heads, e.queries, e.features), k = numbers(2, e.groups, e.keys, e.features),
               v = numbers(3, e.groups, e.keys, e.values);
    agree("all", all, q, k, v, {1, 2});
    agree("causal", plain, q, k, v, {1, 2});
  }
}

TEST_CASE("open batches, queries and keys keep the kernels") {
  struct sizes {
    std::int64_t batch, queries, keys;
  };
  const auto sample = [](std::uint64_t key, std::int64_t batch, std::int64_t h, std::int64_t n, std::int64_t d) {
    return four(normal<float>(make_key(key), batch, h, n, d));
  };
  const auto run = [&](const auto& f, std::initializer_list<sizes> calls) {
    const auto gradients = grad<0, 1, 2>([f](four a, four b, four c) { return real(sum(sin(f(a, b, c)))); });
    const auto on_cpu = compile(f), by_hand = compile(f, {.backend = "reference"});
    const auto back = compile(gradients), back_by_hand = compile(gradients, {.backend = "reference"});
    for (const sizes& e : calls) {
      CAPTURE(e.batch);
      CAPTURE(e.queries);
      CAPTURE(e.keys);
      const four q = sample(1, e.batch, 4, e.queries, 16), k = sample(2, e.batch, 2, e.keys, 16),
                 v = sample(3, e.batch, 2, e.keys, 24);
      CHECK(distance(on_cpu(q, k, v), by_hand(q, k, v)) <= 2e-5);
      const auto [a, b, c] = back(q, k, v);
      const auto [x, y, z] = back_by_hand(q, k, v);
      CHECK(distance(a, x) <= 2e-5);
      CHECK(distance(b, y) <= 2e-5);
      CHECK(distance(c, z) <= 2e-5);
    }
    const four q = sample(1, 2, 4, 70, 16), k = sample(2, 2, 2, 70, 16), v = sample(3, 2, 2, 70, 24);
    const explanation forward = explain(on_cpu)(q, k, v), both = explain(back)(q, k, v);
    CHECK(forward.specialisations.size() == 2);
    CHECK(both.specialisations.size() == 2);
    for (std::size_t s = 0; s < 2; ++s) {
      CHECK(count_kernels(forward, s).forward == 1);
      CHECK(count_kernels(both, s).forward == 1);
      CHECK(count_kernels(both, s).backward == 2);
    }
  };
  run([](four a, four b, four c) { return attention(a, b, c, causal, sliding<20>); },
      {{2, 70, 70}, {3, 70, 70}, {5, 70, 70}});
  run([](four a, four b, four c) { return attention(a, b, c); }, {{2, 70, 70}, {2, 50, 129}, {2, 129, 3}, {2, 2, 50}});
  run([](four a, four b, four c) { return attention(a, b, c, causal); },
      {{2, 70, 70}, {3, 64, 64}, {4, 131, 131}, {2, 5, 5}});
}

TEST_CASE("what has no kernel is composed: few places, f64, gradients of what a score captures") {
  const auto plain = [](auto a, auto b, auto c) { return attention(a, b, c, causal); };
  for (const auto& [queries, keys, features] : {std::array{5, 70, 16}, {70, 1, 16}, {70, 70, 1}, {1, 70, 16}}) {
    const four q = numbers(1, 2, queries, features), k = numbers(2, 2, keys, features),
               v = numbers(3, 2, keys, features);
    agree("few", [](four a, four b, four c) { return attention(a, b, c); }, q, k, v, {0, 0});
  }
  const auto wide = cast<double>(numbers(1, 2, 64, 16));
  const tensor<double, 4> x = wide;
  CHECK(count_kernels(explain(compile(plain))(x, x, x)).forward == 0);
  const four q = numbers(1, 2, 64, 16);
  const tensor<float, 2> bias = normal<float>(make_key(4), 64, 64);
  const auto biased = [](four a, tensor<float, 2> b) {
    return real(sum(sin(attention(a, a, a, scored([&](auto s, auto, auto, auto, auto) { return s + b; })))));
  };
  const auto both = compile(grad<0, 1>(biased)), hand = compile(grad<0, 1>(biased), {.backend = "reference"});
  const explanation told = explain(both)(q, bias);
  const counts made = count_kernels(told);
  CHECK(made.forward + made.backward == 0);
  for (const char* line : {" has no kernel of its own: gradients of captured values are sums of the composition\n",
                           " has no kernel of its own: its gradient has none\n"})
    CHECK_MESSAGE(told.text().find(line) != std::string::npos, told.text());
  const auto [a, b] = both(q, bias);
  const auto [c, d] = hand(q, bias);
  CHECK(distance(a, c) <= 2e-5);
  CHECK(distance(b, d) <= 2e-5);
}

TEST_CASE("rows that see nothing, infinite and huge scores, NaN") {
  const four k = numbers(2, 2, 70, 16), v = numbers(3, 2, 70, 16);
  const tensor<bool, 2> some = expand_dims<-1>(arange<std::int64_t>(70)) % std::int64_t{3} > std::int64_t{0};
  const auto blind = [some](four a, four b, four c) { return attention(a, b, c, masked(broadcast_to(some, 70, 70))); };
  const four q = numbers(1, 2, 70, 16);
  agree("blind", blind, q, k, v, {1, 2});
  const four y = compile(blind)(q, k, v);
  for (std::int64_t e = 0; e < 16; ++e) CHECK(y(0, 0, 3, e) == 0.0f);
  const auto plain = [](four a, four b, four c) { return attention(a, b, c); };
  agree("large", plain, q * 1e2f, k, v, {1, 2}, 1e-3);
  const auto huge = grad<0, 1, 2>([plain](four a, four b, four c) { return real(sum(sin(plain(a, b, c)))); });
  const verification found = verify(huge)(q * 1e4f, k, v);
  CHECK_MESSAGE(found.found == verification::outcome::agrees, found.text());
  for (const float odd : {inf, -inf, std::numeric_limits<float>::quiet_NaN()}) {
    CAPTURE(odd);
    const four strange =
        where(reshape(arange<std::int64_t>(70), 1, 1, 70, 1) == std::int64_t{7}, four(abs(k) * odd), k);
    agree("odd keys", plain, q, strange, v, {1, 2});
  }
  const auto unguarded = [some](four a, four b, four c) {
    const four s = where(some, matmul(a, transpose(b)), -inf);
    return matmul(softmax(s), c);
  };
  agree("NaN rows", unguarded, q, k, v, {1, 2});
}

TEST_CASE("bf16 beside f64") {
  const four q = numbers(1, 2, 100, 32), k = numbers(2, 2, 100, 32), v = numbers(3, 2, 100, 32);
  const halves a = cast<bf16>(q), b = cast<bf16>(k), c = cast<bf16>(v);
  const auto narrow = compile([](halves x, halves y, halves z) { return attention(x, y, z, causal); });
  CHECK(count_kernels(explain(narrow)(a, b, c)).forward == 1);
  const auto wide = [](const halves& x) { return tensor<double, 4>(cast<double>(x)); };
  const tensor<double, 4> want = attention(wide(a), wide(b), wide(c), causal);
  CHECK(distance(tensor<double, 4>(cast<double>(narrow(a, b, c))), want) <= 4e-3);
  const auto loss = [](auto x, auto y, auto z) { return sum(sin(cast<float>(attention(x, y, z, causal)))); };
  const auto back = compile(grad<0, 1, 2>([loss](halves x, halves y, halves z) { return real(loss(x, y, z)); }));
  const counts made = count_kernels(explain(back)(a, b, c));
  CHECK(made.forward == 1);
  CHECK(made.backward == 2);
  const auto exact = grad<0, 1, 2>([](tensor<double, 4> x, tensor<double, 4> y, tensor<double, 4> z) {
    return tensor<double, 0>(sum(sin(attention(x, y, z, causal))));
  });
  const auto [da, db, dc] = back(a, b, c);
  const auto [xa, xb, xc] = compile(exact)(wide(a), wide(b), wide(c));
  CHECK(distance(wide(da), xa) <= 2e-2);
  CHECK(distance(wide(db), xb) <= 2e-2);
  CHECK(distance(wide(dc), xc) <= 2e-2);
}

TEST_CASE("kernels of attention agree with the reference one by one, f16 and lanes, too") {
  const four q = numbers(1, 2, 65, 16), k = numbers(2, 2, 65, 16), v = numbers(3, 2, 65, 16);
  const auto f = [](four a, four b, four c) { return attention(a, b, c, causal); };
  const auto g = grad<0, 1, 2>([f](four a, four b, four c) { return real(sum(sin(f(a, b, c)))); });
  const verification forward = verify(f)(q, k, v), backward = verify(g)(q, k, v);
  CHECK_MESSAGE(forward.found == verification::outcome::agrees, forward.text());
  CHECK_MESSAGE(backward.found == verification::outcome::agrees, backward.text());
  using narrow = tensor<f16, 4>;
  const auto half = [](narrow a, narrow b, narrow c) { return attention(a, b, c); };
  const verification small = verify(half)(narrow(cast<f16>(q)), narrow(cast<f16>(k)), narrow(cast<f16>(v)));
  CHECK_MESSAGE(small.found == verification::outcome::agrees, small.text());
  const auto lanes =
      vmap([](tensor<float, 3> a, tensor<float, 3> b, tensor<float, 3> c) { return attention(a, b, c, causal); });
  CHECK(count_kernels(explain(compile(lanes))(q, k, v)).forward == 1);
  CHECK(distance(four(compile(lanes)(q, k, v)), f(q, k, v)) <= 2e-5);
}

TEST_CASE("forward mode and second derivatives are the composition's") {
  const four q = numbers(1, 1, 50, 8), t = numbers(5, 1, 50, 8);
  const auto f = [](four a) { return real(sum(sin(attention(a, a, a, causal)))); };
  const auto forward = [f](four a, four b) { return jvp(f)(a, b).second; };
  const auto twice = [f](four a, four b) { return grad([f, b](four x) { return real(sum(grad(f)(x) * b)); })(a); };
  CHECK(distance(compile(forward)(q, t), compile(forward, {.backend = "reference"})(q, t)) <= 1e-4);
  CHECK(distance(four(compile(twice)(q, t)), four(compile(twice, {.backend = "reference"})(q, t))) <= 1e-4);
}

TEST_CASE("attention is composed where that takes less time") {
  const auto f = [](four a, four b, four c) { return attention(a, b, c, causal); };
  const auto all = [](four a, four b, four c) { return attention(a, b, c); };
  ::unsetenv("SINTER_ATTENTION");
  const four x = numbers(1, 1, 160, 16), y = numbers(2, 1, 260, 16);
  CHECK(count_kernels(explain(compile(f))(x, x, x)).forward == 1);
  CHECK(count_kernels(explain(compile(all))(x, x, x)).forward == 0);
  CHECK(count_kernels(explain(compile(all))(y, y, y)).forward == 1);
  const counts made = count_kernels(explain(compile(grad([f](four a) { return real(sum(f(a, a, a))); })))(x));
  CHECK(made.forward + made.backward == 0);
  ::setenv("SINTER_ATTENTION", "composed", 1);
  CHECK(count_kernels(explain(compile([](four a) { return attention(a, a, a) * 2.0f; }))(y)).forward == 0);
  ::setenv("SINTER_ATTENTION", "kernels", 1);
}
