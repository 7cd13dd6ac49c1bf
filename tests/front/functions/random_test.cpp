// tests/front/functions/random_test.cpp: the generator's bits against the published test vectors, and the distributions.
#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <sinter/sinter.hpp>
#include <string>

#include "../ops_support.hpp"

using namespace sinter;

namespace {

struct moments {
  double mean = 0, variance = 0, skew = 0, kurtosis = 0;
};

template <class X>
moments moments_of(const X& x) {
  const auto v = x.to_vector();
  const auto n = static_cast<double>(v.size());
  moments m;
  for (auto e : v) m.mean += static_cast<double>(e) / n;
  for (auto e : v) m.variance += std::pow(static_cast<double>(e) - m.mean, 2) / n;
  for (auto e : v) m.skew += std::pow((static_cast<double>(e) - m.mean) / std::sqrt(m.variance), 3) / n;
  for (auto e : v) m.kurtosis += std::pow((static_cast<double>(e) - m.mean) / std::sqrt(m.variance), 4) / n;
  return m;
}

}  // namespace

TEST_CASE("one number of each kind") {
  const key k = make_key(7);
  CHECK(randint<int>(k, 3, 9).item() == randint<int>(k, 3, 9, 1).item());
  CHECK(bernoulli(k, 0.5).item() == bernoulli(k, 0.5, 1).item());
  CHECK(uniform<float>(k).item() == uniform<float>(k, 1).item());
}

TEST_CASE("philox is Philox4x32-10") {
  // The known answer for counter 0 and key 0 of Random123's kat_vectors: 6627e8d5 e169c58d …
  const tensor<std::uint64_t, 0> zero = std::uint64_t{0};
  CHECK(philox(zero, 0).item() == 0xe169c58d6627e8d5ull);
}

TEST_CASE("numbers are a function of the key and the position") {
  const auto k = make_key(7);
  CHECK(uniform<float>(k, 100).to_vector() == uniform<float>(k, 100).to_vector());
  CHECK(uniform<float>(k, 100).to_vector() == uniform<float>(k, 10, 10).to_vector());
  CHECK(uniform<float>(k, 100).to_vector() == uniform<float, dims{100}>(k).to_vector());
  CHECK(uniform<float>(k, 100).to_vector() == uniform<float>(k, index_array<2>{25, 4}).to_vector());
  CHECK(uniform<float>(k, 100).to_vector() != uniform<float>(make_key(8), 100).to_vector());
  CHECK(uniform<double>(k).item() == uniform<double>(k, 3)(0));
  CHECK(normal<float>(k, 0, 4).numel() == 0);
}

TEST_CASE("split gives distinct keys, whose numbers differ from the parent's") {
  const auto k = make_key(3);
  std::set<std::uint64_t> states{k.state.item()};
  for (const auto& child : split(k, 50)) states.insert(child.state.item());
  const auto [a, b] = split(k);
  const auto [c, d, e] = split<3>(k);
  CHECK(a.state.item() == c.state.item());
  CHECK(b.state.item() == d.state.item());
  for (const auto& child : split(a, 20)) states.insert(child.state.item());
  CHECK(states.size() == 71);
  CHECK(uniform<float>(a, 50).to_vector() != uniform<float>(b, 50).to_vector());
  CHECK(ops::contains(ops::error_of([&] { (void)split(k, -1); }), "[split]"));
}

TEST_CASE_TEMPLATE("uniform is in [0, 1) with the right moments", T, f16, bf16, float, double) {
  const auto x = uniform<T>(make_key(1), 40000);
  for (auto v : x.to_vector()) REQUIRE((static_cast<double>(v) >= 0 && static_cast<double>(v) < 1));
  const auto m = moments_of(x);
  CHECK(std::fabs(m.mean - 0.5) < 0.01);
  CHECK(std::fabs(m.variance - 1.0 / 12) < 0.003);
}

TEST_CASE_TEMPLATE("normal has the right moments", T, f16, bf16, float, double) {
  const auto m = moments_of(normal<T>(make_key(2), 40000));
  CHECK(std::fabs(m.mean) < 0.02);
  CHECK(std::fabs(m.variance - 1) < 0.03);
  CHECK(std::fabs(m.skew) < 0.05);
  CHECK(std::fabs(m.kurtosis - 3) < 0.15);
}

TEST_CASE("normal is finite for every word") {
  for (auto v : normal<float>(make_key(9), 200000).to_vector()) REQUIRE(std::isfinite(v));
}

TEST_CASE("bernoulli") {
  const auto k = make_key(4);
  const auto x = bernoulli(k, 0.3, 20000).to_vector();
  CHECK(std::fabs(static_cast<double>(std::count(x.begin(), x.end(), true)) / 20000 - 0.3) < 0.02);
  const auto none = bernoulli(k, 0, 100).to_vector(), all = bernoulli<dims{100}>(k, 1).to_vector();
  CHECK(std::count(none.begin(), none.end(), true) == 0);
  CHECK(std::count(all.begin(), all.end(), true) == 100);
  CHECK(ops::contains(ops::error_of([&] { bernoulli(k, 1.5, 3); }), "[bernoulli] the probability must be in [0, 1]"));
  CHECK(ops::contains(ops::error_of([&] { bernoulli(k, std::nan(""), 3); }), "[bernoulli]"));
}

TEST_CASE_TEMPLATE("randint covers its range evenly", T, std::int8_t, std::uint8_t, int, std::int64_t, std::uint64_t) {
  const T low = std::is_signed_v<T> ? static_cast<T>(-3) : T(2);
  std::vector<int> seen(7);
  for (auto v : randint<T>(make_key(5), low, static_cast<T>(low + 7), 7000).to_vector()) {
    REQUIRE(v >= low);
    REQUIRE(v < low + 7);
    ++seen[static_cast<std::size_t>(v - low)];
  }
  for (int n : seen) CHECK(std::abs(n - 1000) < 150);
  CHECK(ops::contains(ops::error_of([] { randint<T>(make_key(5), T(3), T(3), 2); }), "[randint] needs low < high"));
}

TEST_CASE("the whole range of a 64-bit type") {
  using limits = std::numeric_limits<std::int64_t>;
  const auto x = randint<std::int64_t>(make_key(6), limits::min(), limits::max(), 1000).to_vector();
  const auto negative = std::count_if(x.begin(), x.end(), [](auto v) { return v < 0; });
  CHECK(negative > 400);
  CHECK(negative < 600);
}

TEST_CASE("tracing gives the same bits") {
  const auto state = tensor<std::uint64_t, 0>(std::uint64_t{0x123456789abcdef0});
  const auto same = [&](auto f) {
    const auto eager = ops::values(f(state)), traced = ops::traced(f, state);
    CHECK(eager.at == traced.at);
  };
  same([](const auto& s) { return uniform<float>(key{s}, 5, 7); });
  same([](const auto& s) { return uniform<double>(key{s}, 9); });
  same([](const auto& s) { return bernoulli(split(key{s}).second, 0.5, 33); });
  same([](const auto& s) { return randint<int>(key{s}, -10, 10, 33); });
  same([](const auto& s) { return normal<double>(key{s}, 1001); });
  same([](const auto& s) { return normal<float>(key{s}, 1001); });
  same([](const auto& s) { return normal<f16>(key{s}, 1001); });
  same([](const auto& s) { return normal<bf16>(key{s}, 1001); });
}

TEST_CASE("fold_in and split_stacked have these bits") {
  const key k = make_key(7);
  CHECK(fold_in(k, 3).state.item() == 3923897533510334772u);
  CHECK(fold_in(k, tensor<int, 0>(3)).state.item() == 3923897533510334772u);
  CHECK(fold_in(k, -1).state.item() == 10655103788586795824u);
  CHECK(fold_in(k, tensor<std::int64_t, 0>(-1)).state.item() == 10655103788586795824u);
  CHECK(fold_in(k, 3).state.item() != split(k, 4)[3].state.item());
  const auto keys = split_stacked(k, 3);
  const auto each = split(k, 3), apart = unstack(keys);
  for (std::size_t i = 0; i < 3; ++i) CHECK(apart[i].state.item() == each[i].state.item());
  CHECK(each[2].state.item() == 7637962903838162256u);
  CHECK(unstack(split_stacked(k, 0)).empty());
  CHECK(texts::contains(texts::error_of([&] { (void)split_stacked(k, -1); }), "[split_stacked] the number of keys"));
  for (const char* backend : {"reference", "cpu"}) {
    options how;
    how.backend = backend;
    const auto lanes = compile(
        [](const key& one, const tensor<int, 1>& folded) {
          return vmap([](const key& of, const tensor<int, 0>& i) { return uniform<float>(fold_in(of, i)); })(
              split_stacked(one, folded.shape()[0]), folded);
        },
        how);
    for (const int n : {2, 3, 5}) {
      const auto got = lanes(k, tensor<int, 1>(arange<int>(n) + 4)).to_vector();
      const auto children = split(k, n);
      for (int i = 0; i < n; ++i)
        CHECK(got[std::size_t(i)] == uniform<float>(fold_in(children[std::size_t(i)], i + 4)).item());
    }
  }
}

TEST_CASE("exponential, laplace and truncated_normal: the numbers of a key, moments, limits") {
  const key k = make_key(7);
  const auto near = [](double a, double b) { return std::abs(a - b) <= 4e-15 * std::abs(b); };
  const auto e = exponential<double>(k, 3).to_vector(), l = laplace<double>(k, 3).to_vector();
  const double want[] = {0.28747913024179406, 0.22905594846379412, 4.773220499738073};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(near(e[i], want[i]));
    CHECK(near(l[i], i < 2 ? -want[i] : want[i]));
  }
  constexpr std::int64_t n = 100000;
  const auto check = [](const auto& x, double middle, double square) {
    CHECK(mean(x).item() == doctest::Approx(middle).epsilon(0.02).scale(1));
    CHECK(var(x).item() == doctest::Approx(square).epsilon(0.03));
  };
  check(exponential<float>(k, n), 1, 1);
  check(laplace<double>(k, n), 0, 2);
  CHECK(min(exponential<double>(k, n)).item() >= 0);
  // φ(1) / (1 - Φ(1)) and its variance; the middle of a symmetric interval.
  const auto tail = truncated_normal<double>(k, 1, 1e9, n), middle = truncated_normal<double>(k, -2, 2, n);
  check(tail, 1.525135276, 0.199097637);
  check(middle, 0, 0.773741292);
  CHECK(min(tail).item() >= 1);
  CHECK(max(abs(truncated_normal<float>(k, -2, 2, n))).item() <= 2);
  CHECK(exponential<f16>(k).rank == 0);
  CHECK((truncated_normal<float, dims{2, 3}>(k, 0, 1).numel()) == 6);
  const auto error = [&](double low, double high) {
    return texts::error_of([&] { (void)truncated_normal<float>(k, low, high, 3); });
  };
  CHECK(texts::contains(error(1, 1), "[truncated_normal] needs low < high"));
  CHECK(texts::contains(error(2, std::nan("")), "needs low < high"));
}

TEST_CASE("categorical draws with the probabilities of its logits") {
  const key k = make_key(11);
  const float none = -std::numeric_limits<float>::infinity();
  const auto drawn = categorical(k, broadcast_to(tensor<float, 1>{0, 1, none, 2}, 100000, 4));
  const double total = 1 + std::exp(1.0) + std::exp(2.0),
               want[] = {1 / total, std::exp(1.0) / total, 0, std::exp(2.0) / total};
  for (int i = 0; i < 4; ++i)
    CHECK(mean(cast<double>(drawn == i)).item() == doctest::Approx(want[i]).epsilon(0.02).scale(1));
  CHECK(categorical(k, tensor<double, 1>{none, 3, none}).item() == 1);
  CHECK(categorical(k, tensor<double, 1>{-1e300, 1e300}).item() == 1);
  const auto x = normal<float>(k, 5, 7);
  for (const char* backend : {"reference", "cpu"}) {
    options how;
    how.backend = backend;
    CHECK(compile([](const key& of, const tensor<float, 2>& t) { return categorical(of, t); }, how)(k, x).to_vector() ==
          categorical(k, x).to_vector());
  }
}
