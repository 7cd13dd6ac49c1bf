// attention, rotary and alibi against loops in f64: every option, grouped heads, caches, empty extents, derivatives, lanes.
#include <cmath>
#include <functional>
#include <limits>

#include "../../texts.hpp"
#include "../transforms/derivatives.hpp"

using namespace sinter;
using namespace derivatives;
using texts::contains;
using texts::error_of;

namespace {

using four = tensor<double, 4>;
using heads3 = tensor<double, 3>;

constexpr double inf = std::numeric_limits<double>::infinity();

four numbers4(std::uint64_t key, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  return normal<double>(make_key(key), a, b, c, d);
}

/// What the scores become, and whether a key is seen.
struct rules {
  std::function<double(double, std::int64_t, std::int64_t, std::int64_t, std::int64_t)> score =
      [](double s, auto, auto, auto, auto) { return s; };
  std::function<bool(std::int64_t, std::int64_t, std::int64_t, std::int64_t)> sees = [](auto, auto, auto, auto) {
    return true;
  };
  double scale = 0;
};

/// One sum after the other.
std::vector<double> naive(const four& q, const four& k, const four& v, const rules& r = {}) {
  const std::int64_t heads = q.size(1), share = heads / k.size(1);
  std::vector<double> out;
  for (std::int64_t b = 0; b < q.size(0); ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t m = 0; m < q.size(2); ++m) {
        const std::int64_t i = m + k.size(2) - q.size(2);
        std::vector<double> e;
        double top = -inf, total = 0;
        for (std::int64_t j = 0; j < k.size(2); ++j) {
          double s = 0;
          for (std::int64_t d = 0; d < q.size(3); ++d) s += q(b, h, m, d) * k(b, h / share, j, d);
          s = r.score(s * (r.scale != 0 ? r.scale : 1 / std::sqrt(double(q.size(3)))), b, h, i, j);
          e.push_back(r.sees(b, h, i, j) ? s : -inf);
          top = std::max(top, e.back());
        }
        for (double& s : e) total += s = s == -inf ? 0 : std::exp(s - top);
        for (std::int64_t d = 0; d < v.size(3); ++d) {
          double sum = 0;
          for (std::int64_t j = 0; j < k.size(2); ++j)
            if (total > 0) sum += e[std::size_t(j)] / total * v(b, h / share, j, d);
          out.push_back(sum);
        }
      }
  return out;
}

}  // namespace

TEST_CASE("attention equals its loops, whatever its options are") {
  const four q = numbers4(1, 2, 4, 5, 3), k = numbers4(2, 2, 2, 7, 3), v = numbers4(3, 2, 2, 7, 6);
  const auto same = [&](const auto& f, const rules& r) {
    for (const auto& y : everywhere(f, q, k, v)) {
      CHECK(y.size(3) == 6);
      check_close(y.to_vector(), naive(q, k, v, r), 1e-12);
    }
  };
  same([](const four& q, const four& k, const four& v) { return attention(q, k, v); }, {});
  rules r;
  r.sees = [](auto, auto, auto i, auto j) { return j <= i; };
  same([](const four& q, const four& k, const four& v) { return attention(q, k, v, causal); }, r);
  r.sees = [](auto, auto, auto i, auto j) { return j <= i && i - j < 3; };
  r.scale = 0.25;
  same([](const four& q, const four& k, const four& v) { return attention(q, k, v, scaled(0.25), sliding<3>, causal); },
       r);
  r = {};
  r.sees = [](auto, auto, auto i, auto j) { return std::abs(i - j) < 2; };
  same([](const four& q, const four& k, const four& v) { return attention(q, k, v, sliding<2>); }, r);
  r.sees = [](auto b, auto h, auto i, auto j) { return (i + j + h + b) % 3 != 0; };
  r.score = [](double s, auto b, auto h, auto i, auto j) {
    return std::tanh(s) + 0.1 * double(b) - 0.2 * double(h) * double(i - j);
  };
  same(
      [](const four& q, const four& k, const four& v) {
        return attention(q, k, v, masked([](auto b, auto h, auto i, auto j) { return (i + j + h + b) % 3 != 0; }),
                         scored([](auto s, auto b, auto h, auto i, auto j) {
                           return tanh(s) + 0.1 * cast<double>(b) - 0.2 * cast<double>(h) * cast<double>(i - j);
                         }));
      },
      r);
  // A mask of a tensor, one row of which sees nothing.
  const tensor<bool, 2> seen =
      uniform<double>(make_key(9), 5, 7) > 0.4 && expand_dims<-1>(arange<std::int64_t>(5)) != 2;
  r = {};
  r.sees = [&](auto, auto, auto i, auto j) { return seen(i - 2, j); };
  same([&](const four& q, const four& k, const four& v) { return attention(q, k, v, masked(seen)); }, r);
  r = {};
  r.score = [](double s, auto, auto h, auto i, auto j) {
    return s + std::exp2(-8.0 * double(h + 1) / 4) * double(j - i);
  };
  r.sees = [](auto, auto, auto i, auto j) { return j <= i; };
  same([](const four& q, const four& k, const four& v) { return attention(q, k, v, alibi(4), causal); }, r);
}

TEST_CASE("attention of other ranks, of no keys, no queries, one place, large scores and halves") {
  const four q = numbers4(1, 1, 1, 4, 2), k = numbers4(2, 1, 1, 3, 2), v = numbers4(3, 1, 1, 3, 5);
  const auto plain = naive(q, k, v);
  const matrix q2 = reshape(q, {4, 2}), k2 = reshape(k, {3, 2}), v2 = reshape(v, {3, 5});
  for (const auto& y :
       everywhere([](const matrix&q, const matrix&k, const matrix&v) { return attention(q, k, v); }, q2, k2, v2))
    check_close(y.to_vector(), plain, 1e-12);
  check_close(attention(reshape(q, {1, 4, 2}), reshape(k, {1, 3, 2}), reshape(v, {1, 3, 5})).to_vector(), plain, 1e-12);
  // More queries than keys: the first see nothing.
  rules before;
  before.sees = [](auto, auto, auto i, auto j) { return j <= i; };
  for (const auto& y :
       everywhere([](const four&q, const four&k, const four&v) { return attention(q, k, v, causal); }, q, k, v)) {
    check_close(y.to_vector(), naive(q, k, v, before), 1e-12);
    CHECK(y(0, 0, 0, 0) == 0);
  }
  const matrix none = zeros<double>(0, 2), nothing = zeros<double>(0, 5);
  for (const auto& y :
       everywhere([](const matrix&q, const matrix&k, const matrix&v) { return attention(q, k, v, causal); }, q2, none,
                  nothing))
    CHECK(y.to_vector() == std::vector<double>(20));
  CHECK(attention(none, k2, v2).numel() == 0);
  check_close(attention(matrix(q2 * 1e200), matrix(k2 * 1e100), v2).to_vector(), naive(q * 1e200, k * 1e100, v), 1e-12);
  const auto half = attention(cast<f16>(q), cast<f16>(k), cast<f16>(v), causal);
  check_close(cast<double>(half).to_vector(),
              naive(cast<double>(cast<f16>(q)), cast<double>(cast<f16>(k)), cast<double>(cast<f16>(v)), before), 4e-3);
  const tensor<float, dims{4, 2}> fixed = cast<float>(q2);
  static_assert(decltype(attention(fixed, fixed, fixed))::static_shape == dims{4, 2});
}

TEST_CASE("attention has derivatives and lanes, where a query sees nothing too") {
  const heads3 q = normal<double>(make_key(1), 2, 3, 2), k = normal<double>(make_key(2), 1, 4, 2),
               v = normal<double>(make_key(3), 1, 4, 2);
  const tensor<bool, 2> seen =
      uniform<double>(make_key(9), 3, 4) > 0.4 && expand_dims<-1>(arange<std::int64_t>(3)) != 1;
  using three = std::tuple<heads3, heads3, heads3>;
  check_derivatives(
      [&](const three& x) { return attention(std::get<0>(x), std::get<1>(x), std::get<2>(x), masked(seen)); },
      three{q, k, v}, 1e-5);
  const auto f = [](const heads3& q, const heads3& k, const heads3& v) { return attention(q, k, v, causal, alibi(2)); };
  const four many = numbers4(4, 3, 2, 3, 2);
  for (const auto& y : everywhere([&](const four& q) { return vmap(f, in_axes<0, none, none>)(q, k, v); }, many))
    for (std::int64_t l = 0; l < 3; ++l) {
      const heads3 one = squeeze<0>(slice<0>(many, l, l + 1));
      check_close(heads3(squeeze<0>(slice<0>(y, l, l + 1))).to_vector(), f(one, k, v).to_vector(), 1e-12);
    }
  // Open extents.
  const auto open =
      compile([](const heads3& q, const heads3& k, const heads3& v) { return attention(q, k, v, causal); },
              {.dynamic = dynamic::yes});
  for (const std::int64_t n : {4, 7, 9}) {
    const heads3 kn = normal<double>(make_key(5), 1, n, 2), vn = normal<double>(make_key(6), 1, n, 2);
    check_close(open(q, kn, vn).to_vector(), attention(q, kn, vn, causal).to_vector(), 1e-12);
  }
  CHECK(open.specialisations() <= 2);
}

TEST_CASE("what a score captures has derivatives, and lanes of its own") {
  const heads3 q = normal<double>(make_key(1), 4, 3, 2), k = normal<double>(make_key(2), 2, 4, 2),
               v = normal<double>(make_key(3), 2, 4, 3);
  const matrix bias = normal<double>(make_key(4), 3, 4);
  const vec slopes = normal<double>(make_key(5), 4);
  const auto mixed = [](const heads3& q, const heads3& k, const heads3& v, const matrix& bias, const vec& slopes) {
    return heads3(attention(q, k, v, causal, scored([&](auto s, auto, auto, auto i, auto j) {
                              const auto slope = reshape(exp(slopes), -1, 1, 1);
                              return 5.0 * tanh(s / 5.0) + bias - slope * cast<double>(i - j);
                            })));
  };
  using five = std::tuple<heads3, heads3, heads3, matrix, vec>;
  check_derivatives([&](const five& x) { return std::apply(mixed, x); }, five{q, k, v, bias, slopes}, 1e-5);
  // Lanes of the bias alone, and of all but it.
  const heads3 biases = normal<double>(make_key(6), 2, 3, 4);
  const auto gradient = grad<0, 3, 4>([&](const heads3& q, const heads3& k, const heads3& v, const matrix& bias,
                                          const vec& slopes) { return real(sum(sin(mixed(q, k, v, bias, slopes)))); });
  const auto lanes = [&](const heads3& biases) {
    return vmap(gradient, in_axes<none, none, none, 0, none>)(q, k, v, biases, slopes);
  };
  for (const auto& [dq, db, ds] : everywhere(lanes, biases))
    for (std::int64_t l = 0; l < 2; ++l) {
      const auto [one, two, three] = gradient(q, k, v, matrix(squeeze<0>(slice<0>(biases, l, l + 1))), slopes);
      check_close(heads3(squeeze<0>(slice<0>(dq, l, l + 1))).to_vector(), one.to_vector(), 1e-12);
      check_close(matrix(squeeze<0>(slice<0>(db, l, l + 1))).to_vector(), two.to_vector(), 1e-12);
      check_close(vec(squeeze<0>(slice<0>(ds, l, l + 1))).to_vector(), three.to_vector(), 1e-12);
    }
  const four many = numbers4(7, 2, 4, 3, 2), keys = numbers4(8, 2, 2, 4, 2), values = numbers4(9, 2, 2, 4, 3);
  const auto others = [&](const four& q, const four& k, const four& v) {
    return vmap(gradient, in_axes<0, 0, 0, none, none>)(q, k, v, bias, slopes);
  };
  for (const auto& [dq, db, ds] : everywhere(others, many, keys, values))
    for (std::int64_t l = 0; l < 2; ++l) {
      const auto of = [&](const four& x) { return heads3(squeeze<0>(slice<0>(x, l, l + 1))); };
      const auto [one, two, three] = gradient(of(many), of(keys), of(values), bias, slopes);
      check_close(of(dq).to_vector(), one.to_vector(), 1e-12);
      check_close(matrix(squeeze<0>(slice<0>(db, l, l + 1))).to_vector(), two.to_vector(), 1e-12);
      check_close(vec(squeeze<0>(slice<0>(ds, l, l + 1))).to_vector(), three.to_vector(), 1e-12);
    }
}

TEST_CASE("attention of bf16 against f64, and its gradient") {
  using half = tensor<bf16, 4>;
  const auto narrow = [](const four& x) { return half(cast<bf16>(x)); };
  const four wide_of[] = {numbers4(1, 2, 4, 9, 16), numbers4(2, 2, 2, 13, 16), numbers4(3, 2, 2, 13, 7)};
  const half q = narrow(wide_of[0]), k = narrow(wide_of[1]), v = narrow(wide_of[2]);
  const auto f = [](const auto& q, const auto& k, const auto& v) { return attention(q, k, v, causal); };
  const auto slopes = [&](const auto& q, const auto& k, const auto& v) {
    return grad<0, 1, 2>(
        [&](const auto& q, const auto& k, const auto& v) { return real(sum(sin(cast<double>(f(q, k, v))))); })(q, k, v);
  };
  const auto exact = [](const half& x) { return four(cast<double>(x)); };
  const auto want = f(exact(q), exact(k), exact(v));
  for (const auto& y : everywhere([&](half q, half k, half v) { return half(f(q, k, v)); }, q, k, v))
    check_close(exact(y).to_vector(), want.to_vector(), 3e-2);
  const auto [a, b, c] = slopes(exact(q), exact(k), exact(v));
  const auto of_halves = [&](const half& q, const half& k, const half& v) { return slopes(q, k, v); };
  for (const auto& [x, y, z] : everywhere(of_halves, q, k, v)) {
    check_close(exact(x).to_vector(), a.to_vector(), 6e-2);
    check_close(exact(y).to_vector(), b.to_vector(), 6e-2);
    check_close(exact(z).to_vector(), c.to_vector(), 6e-2);
  }
}

TEST_CASE("a cache: each step is attention over all places so far, in one specialisation, and in place") {
  using cache4 = attention_cache<double>;
  using step = std::tuple<cache4, four>;
  const std::int64_t n = 100;
  const four q = numbers4(1, 2, 4, n, 3), k = numbers4(2, 2, 2, n, 3), v = numbers4(3, 2, 2, n, 5);
  const auto of = [](const four& x, std::int64_t i, std::int64_t to) { return four(slice<2>(x, i, to)); };
  const auto decode = [](const cache4& cache, const four& q, const four& k, const four& v) {
    const auto next = append(cache, k, v);
    return step{next, attention(q, next, causal, sliding<40>, scaled(0.5))};
  };
  const four want = attention(q, k, v, causal, sliding<40>, scaled(0.5));
  for (const char* backend : {"", "reference", "cpu"}) {
    options how;
    how.backend = backend;
    how.donate = {0};
    auto f = compile(decode, how);
    const bool eager = std::string(backend).empty();
    cache4 cache = make_attention_cache<double>({2, 2, n, 3}, 5);
    const double* memory = nullptr;
    for (std::int64_t i = 0; i < n; ++i) {
      const four qi = of(q, i, i + 1), ki = of(k, i, i + 1), vi = of(v, i, i + 1);
      auto [next, y] = eager ? decode(cache, qi, ki, vi) : f(std::move(cache), qi, ki, vi);
      check_close(y.to_vector(), of(want, i, i + 1).to_vector(), 1e-12);
      cache = std::move(next);
      if (how.backend == "cpu" && i > 1) CHECK(cache.k.data() == memory);
      memory = cache.k.data();
      if (!eager && how.backend == "reference" && i > 3) break;
    }
    CHECK(f.specialisations() <= 1);
  }
  // Several places at once, and rank 2.
  cache4 all = append(append(make_attention_cache<double>({2, 2, 120, 3}, 5), of(k, 0, 60), of(v, 0, 60)), of(k, 60, n),
                      of(v, 60, n));
  CHECK(all.length.item() == n);
  check_close(attention(of(q, 90, n), all, causal, sliding<40>, scaled(0.5)).to_vector(), of(want, 90, n).to_vector(),
              1e-12);
  const matrix one = normal<double>(make_key(5), 4, 3);
  const auto flat = append(make_attention_cache<double>({6, 3}), one, one);
  check_close(attention(one, flat, masked([](auto, auto, auto i, auto j) { return (i + j) % 2 == 0; }),
                        scored([](auto s, auto, auto, auto, auto) { return tanh(s); }))
                  .to_vector(),
              attention(one, one, one, masked([](auto, auto, auto i, auto j) { return (i + j) % 2 == 0; }),
                        scored([](auto s, auto, auto, auto, auto) { return tanh(s); }))
                  .to_vector(),
              1e-12);
}

TEST_CASE("a cache has no more places than its capacity") {
  using cache2 = attention_cache<double, 2>;
  const matrix x = normal<double>(make_key(1), 3, 2), y = normal<double>(make_key(2), 2, 2);
  const auto grown = [](const cache2& c, const matrix& x) { return append(c, x, x); };
  const cache2 full = grown(make_attention_cache<double>({4, 2}), x);
  CHECK(full.length.item() == 3);
  const auto text = error_of([&] { grown(full, y); });
  CHECK(contains(text, "[append] the cache has 3 places of 4, and no room for 2 more; make a larger one"));
  CHECK(contains(text, "attention_test.cpp:"));
  CHECK(grown(full, tensor<double, 2>(slice<0>(y, 0, 1))).length.item() == 4);
  CHECK(grown(full, tensor<double, 2>(slice<0>(y, 0, 0))).length.item() == 3);
  // In a trace the length is not known: the last places are replaced.
  for (const char* backend : {"reference", "cpu"})
    for (const auto sizes : {dynamic::no, dynamic::yes}) {
      const auto f = compile(grown, {.dynamic = sizes, .backend = backend});
      cache2 c = f(full, y);
      CHECK(c.length.item() == 4);
      check_close(c.k.to_vector(), matrix(concat<0>(slice<0>(x, 0, 2), y)).to_vector(), 0);
      c = f(c, y);
      CHECK(c.length.item() == 4);
    }
  const auto many = [](const cache2& c, const matrix& y) {
    return fori_loop(
        0, 5, [&](tensor<std::int64_t, 0>, const cache2& c) { return append(c, y, y); }, c);
  };
  CHECK(compile(many)(full, y).length.item() == 4);
}

TEST_CASE("keys and values that grow by one place: two specialisations of an open axis") {
  using step = std::tuple<four, four, four>;
  const std::int64_t n = 40;
  const four q = numbers4(1, 1, 4, n, 3), k = numbers4(2, 1, 2, n, 3), v = numbers4(3, 1, 2, n, 5);
  const auto of = [](const four& x, std::int64_t i, std::int64_t to) { return four(slice<2>(x, i, to)); };
  const four want = attention(q, k, v, causal);
  const auto f = compile([](const four& keys, const four& values, const four& q, const four& k, const four& v) {
    const four all = concat<2>(keys, k), known = concat<2>(values, v);
    return step{all, known, attention(q, all, known, causal)};
  });
  four keys = of(k, 0, 1), values = of(v, 0, 1);
  for (std::int64_t i = 1; i < n; ++i) {
    mark_dynamic(keys, 2);
    mark_dynamic(values, 2);
    auto [all, known, y] = f(keys, values, of(q, i, i + 1), of(k, i, i + 1), of(v, i, i + 1));
    check_close(y.to_vector(), of(want, i, i + 1).to_vector(), 1e-12);
    keys = std::move(all), values = std::move(known);
  }
  CHECK(f.specialisations() <= 2);
}

TEST_CASE("rotary turns pairs by their place; scores depend on distances alone") {
  const heads3 x = normal<double>(make_key(1), 2, 5, 6);
  for (const bool together : {false, true}) {
    const auto y = rotary(x, {.base = 100, .interleaved = together});
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t p = 0; p < 5; ++p)
        for (std::int64_t i = 0; i < 3; ++i) {
          const double angle = double(p) * std::pow(100.0, -double(i) / 3);
          const std::int64_t a = together ? 2 * i : i, b = together ? 2 * i + 1 : i + 3;
          CHECK(y(h, p, a) == doctest::Approx(x(h, p, a) * std::cos(angle) - x(h, p, b) * std::sin(angle)));
          CHECK(y(h, p, b) == doctest::Approx(x(h, p, b) * std::cos(angle) + x(h, p, a) * std::sin(angle)));
        }
  }
  const auto scores = [&](std::int64_t from) {
    const auto t = rotary(x, arange<std::int64_t>(5) + from);
    return matrix(squeeze<0>(slice<0>(matmul(t, transpose(t)), 0, 1))).to_vector();
  };
  for (const auto& y : everywhere([](const heads3& x) { return rotary(x); }, x))
    check_close(y.to_vector(), rotary(x, arange<std::int64_t>(5)).to_vector(), 1e-12);
  check_close(scores(0), scores(17), 1e-9);
  check_derivatives([](const heads3& x) { return rotary(x, {.interleaved = true}); }, x);
}

TEST_CASE("what attention refuses") {
  const four q = numbers4(1, 2, 4, 5, 3), k = numbers4(2, 2, 3, 7, 3), v = numbers4(3, 2, 3, 7, 6);
  const auto text = error_of([&] { attention(q, k, v); });
  CHECK(contains(text, "[attention] the heads of q are no multiple of those of k: q is (2, 4, 5, 3), k (2, 3, 7, 3)"));
  CHECK(contains(text, "attention_test.cpp:"));
  CHECK(contains(error_of([&] { attention(q, k, k, causal, scaled(2.0)); }), "no multiple"));
  CHECK(contains(error_of([&] { attention(v, k, v); }), "q and k have different extents of features"));
  CHECK(contains(error_of([&] { attention(k, k, q); }), "k and v have different numbers of places"));
  CHECK(contains(error_of([&] { attention(k, slice<0>(k, 0, 1), slice<0>(v, 0, 1)); }), "different leading extents"));
  const tensor<bool, 2> odd = ones<bool>(4, 7);
  CHECK(contains(error_of([&] { attention(k, k, v, masked(odd)); }), "(4, 7)"));
  const four one = slice<2>(k, 0, 1);
  const auto seen = [](const four& q, const four& k, const four& v, const tensor<bool, 2>& m) {
    return attention(q, k, v, masked(m));
  };
  const char* const larger = "[attention] the mask is (4, 7), which does not broadcast to the scores, (2, 3, 1, 7)";
  CHECK(contains(error_of([&] { seen(one, k, v, odd); }), larger));
  CHECK(contains(error_of([&] { compile(seen, {.dynamic = dynamic::yes})(one, k, v, odd); }), larger));
  CHECK(contains(error_of([&] {
                   attention(one, k, v, scored([](auto s, auto, auto, auto, auto) { return s + ones<double>(4, 1); }));
                 }),
                 "[attention] what `scored` gives is (2, 3, 4, 7), which does not broadcast"));
  const auto cache = make_attention_cache<double>({2, 3, 8, 3}, 6);
  CHECK(contains(error_of([&] { append(cache, q, q); }),
                 "[append] k of (2, 4, 5, 3) does not fit a cache of (2, 3, 8, 3)"));
  CHECK(contains(error_of([&] { append(cache, k, slice<2>(v, 0, 3)); }), "k and v have different numbers of places"));
  CHECK(contains(error_of([&] { append(make_attention_cache<double>({2, 3, 4, 3}, 6), k, v); }), "room"));
  CHECK(contains(error_of([&] { attention(q, cache); }), "[attention] the heads of q are no multiple"));
  CHECK(contains(error_of([] { make_attention_cache<float>({-1, 3}); }), "[make_attention_cache]"));
  CHECK(contains(error_of([&] { rotary(k); }), "[rotary] the last axis has 3 features"));
  const matrix few = ones<double>(1, 4);
  const char* const more = "[rotary] positions are (5,), x is (1, 4); they broadcast to its extents but the last";
  CHECK(contains(error_of([&] { rotary(few, arange<std::int64_t>(5)); }), more));
  CHECK(contains(error_of([&] {
                   compile([](const matrix& x, const tensor<std::int64_t, 1>& p) { return rotary(x, p); })(
                       few, arange<std::int64_t>(5));
                 }),
                 more));
}
