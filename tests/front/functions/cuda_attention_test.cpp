// attention of 16 bits as kernels of a GPU: their number, values and gradients beside f64 on the interpreter, and what is composed.
#include <array>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../../../bench/models/gpt2.hpp"
#include "../../emulator/select.hpp"

using namespace sinter;

namespace {

using four = tensor<float, 4>;
using real = tensor<float, 0>;
using wide = tensor<double, 4>;
template <class T>
using narrow = tensor<T, 4>;

constexpr float inf = std::numeric_limits<float>::infinity();
const device gpu = device::cuda(0);

four numbers(std::uint64_t key, std::int64_t h, std::int64_t n, std::int64_t d) {
  return normal<float>(make_key(key), 1, h, n, d);
}

struct counts {
  std::size_t forward = 0, backward = 0, products = 0;
};
counts count_kernels(const explanation& r, std::size_t which = 0) {
  counts out;
  for (const auto& s : r.specialisations[which].what.steps) {
    out.forward += s.name == "attention";
    out.backward += s.name == "attention_back";
    out.products += s.name.find("dot") != std::string::npos;
  }
  return out;
}

/// The greatest distance, relative to the greatest element; not finite elements must be equal.
template <class X>
double distance(const X& a, const wide& b) {
  const auto x = a.to(device::cpu()).to_vector();
  const auto y = b.to_vector();
  REQUIRE(x.size() == y.size());
  double most = 0, size = 1e-30;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double p = static_cast<double>(x[i]), q = y[i];
    if (std::isfinite(p) && std::isfinite(q)) {
      most = std::max(most, std::fabs(p - q));
      size = std::max(size, std::fabs(q));
    } else if (!(std::isnan(p) && std::isnan(q)) && p != q) {
      return inf;
    }
  }
  return most / size;
}
template <class X>
bool same_bits(const X& a, const X& b) {
  const auto x = a.to(device::cpu()).to_vector(), y = b.to(device::cpu()).to_vector();
  for (std::size_t i = 0; i < x.size(); ++i)
    if (static_cast<float>(x[i]) != static_cast<float>(y[i])) return false;
  return x.size() == y.size();
}

/// Values and gradients on the GPU beside those of f64, and the number of kernels.
template <class T, class F>
void agree(const char* name, const F& f, const four& q, const four& k, const four& v, double tolerance = 0) {
  CAPTURE(std::string(name));
  const double rounding = std::is_same_v<T, bf16> ? 4e-3 : 5e-4, most = tolerance > 0 ? tolerance : 2 * rounding;
  const narrow<T> a = cast<T>(q), b = cast<T>(k), c = cast<T>(v);
  const narrow<T> x = a.to(gpu), y = b.to(gpu), z = c.to(gpu);
  const auto on_gpu = compile([f](narrow<T> r, narrow<T> s, narrow<T> t) { return narrow<T>(f(r, s, t)); });
  const counts forward = count_kernels(explain(on_gpu)(x, y, z));
  CHECK(forward.forward == 1);
  CHECK(forward.products == 0);
  const auto exact = compile([f](wide r, wide s, wide t) { return wide(f(r, s, t)); }, {.backend = "reference"});
  const wide p = cast<double>(a), o = cast<double>(b), n = cast<double>(c);
  CHECK(distance(on_gpu(x, y, z), exact(p, o, n)) <= most);
  const auto loss = [f](auto r, auto s, auto t) { return sum(sin(cast<float>(f(r, s, t)))); };
  const auto back =
      compile(grad<0, 1, 2>([loss](narrow<T> r, narrow<T> s, narrow<T> t) { return real(loss(r, s, t)); }));
  const counts both = count_kernels(explain(back)(x, y, z));
  CHECK(both.forward == 1);
  CHECK(both.backward == 2);
  CHECK(both.products == 0);
  const auto by_hand =
      compile(grad<0, 1, 2>([f](wide r, wide s, wide t) { return tensor<double, 0>(sum(sin(f(r, s, t)))); }),
              {.backend = "reference"});
  const auto [dq, dk, dv] = back(x, y, z);
  const auto [eq, ek, ev] = by_hand(p, o, n);
  CHECK(distance(dq, eq) <= 3 * most);
  CHECK(distance(dk, ek) <= 3 * most);
  CHECK(distance(dv, ev) <= 3 * most);
  const auto [again, other, last] = back(x, y, z);
  CHECK(same_bits(dq, again));
  CHECK(same_bits(dk, other));
  CHECK(same_bits(dv, last));
}

}  // namespace

TEST_CASE("attention with its options is one kernel, and its gradient two more") {
  const four q = numbers(1, 2, 70, 16), k = numbers(2, 2, 70, 16), v = numbers(3, 2, 70, 24);
  const auto plain = [](auto a, auto b, auto c) { return attention(a, b, c); };
  agree<bf16>("plain", plain, q, k, v);
  agree<f16>("f16", plain, q, k, v);
  agree<bf16>(
      "causal", [](auto a, auto b, auto c) { return attention(a, b, c, causal); }, q, k, v);
  agree<bf16>(
      "sliding", [](auto a, auto b, auto c) { return attention(a, b, c, sliding<20>); }, q, k, v);
  agree<bf16>(
      "both", [](auto a, auto b, auto c) { return attention(a, b, c, causal, scaled(0.4), sliding<9>); }, q, k, v);
}

TEST_CASE("odd lengths, grouped heads, wide heads") {
  const auto plain = [](auto a, auto b, auto c) { return attention(a, b, c, causal); };
  const auto all = [](auto a, auto b, auto c) { return attention(a, b, c); };
  struct sizes {
    std::int64_t heads, groups, queries, keys, features, values;
  };
  for (const sizes& e :
       {sizes{1, 1, 64, 64, 64, 64}, {3, 3, 65, 129, 24, 40}, {4, 2, 67, 91, 16, 16}, {1, 1, 130, 70, 128, 128}}) {
    CAPTURE(e.queries);
    const four q = numbers(1, e.heads, e.queries, e.features), k = numbers(2, e.groups, e.keys, e.features),
               v = numbers(3, e.groups, e.keys, e.values);
    agree<bf16>("all", all, q, k, v);
    agree<bf16>("causal", plain, q, k, v);
  }
}

TEST_CASE("open batches and lengths keep the kernels") {
  struct sizes {
    std::int64_t batch, queries, keys;
  };
  const auto run = [](const auto& f, std::initializer_list<sizes> calls) {
    const auto on_gpu = compile(f);
    const auto exact = compile([f](wide r, wide s, wide t) { return wide(f(r, s, t)); }, {.backend = "reference"});
    const auto loss = [f](auto r, auto s, auto t) { return sum(sin(cast<float>(f(r, s, t)))); };
    const auto back =
        compile(grad<0, 1, 2>([loss](narrow<bf16> r, narrow<bf16> s, narrow<bf16> t) { return real(loss(r, s, t)); }));
    const auto by_hand =
        compile(grad<0, 1, 2>([f](wide r, wide s, wide t) { return tensor<double, 0>(sum(sin(f(r, s, t)))); }),
                {.backend = "reference"});
    const auto sample = [](std::uint64_t key, std::int64_t batch, std::int64_t n) {
      return narrow<bf16>(cast<bf16>(normal<float>(make_key(key), batch, 2, n, 16)));
    };
    for (const sizes& e : calls) {
      CAPTURE(e.batch);
      CAPTURE(e.queries);
      CAPTURE(e.keys);
      const narrow<bf16> a = sample(1, e.batch, e.queries), b = sample(2, e.batch, e.keys),
                         c = sample(3, e.batch, e.keys);
      const narrow<bf16> x = a.to(gpu), y = b.to(gpu), z = c.to(gpu);
      const wide p = cast<double>(a), o = cast<double>(b), n = cast<double>(c);
      CHECK(distance(on_gpu(x, y, z), exact(p, o, n)) <= 8e-3);
      const auto [dq, dk, dv] = back(x, y, z);
      const auto [eq, ek, ev] = by_hand(p, o, n);
      CHECK(distance(dq, eq) <= 3 * 8e-3);
      CHECK(distance(dk, ek) <= 3 * 8e-3);
      CHECK(distance(dv, ev) <= 3 * 8e-3);
    }
    const narrow<bf16> x = sample(1, 2, 70).to(gpu), y = sample(2, 2, 70).to(gpu), z = sample(3, 2, 70).to(gpu);
    const explanation forward = explain(on_gpu)(x, y, z), both = explain(back)(x, y, z);
    CHECK(forward.specialisations.size() == 2);
    CHECK(both.specialisations.size() == 2);
    for (std::size_t s = 0; s < 2; ++s) {
      CHECK(count_kernels(forward, s).forward == 1);
      CHECK(count_kernels(both, s).forward == 1);
      CHECK(count_kernels(both, s).backward == 2);
      CHECK(count_kernels(both, s).products == 0);
    }
  };
  run([](auto a, auto b, auto c) { return attention(a, b, c, causal); }, {{2, 70, 70}, {3, 70, 70}, {5, 70, 70}});
  run([](auto a, auto b, auto c) { return attention(a, b, c); }, {{2, 70, 70}, {3, 41, 129}, {2, 130, 3}, {4, 2, 64}});
}

TEST_CASE("rows that see nothing give 0, and their gradients are 0") {
  const four q = numbers(1, 1, 100, 16), k = numbers(2, 1, 70, 16), v = numbers(3, 1, 70, 16);
  // The last key is that of the last query: the first 30 queries see none.
  agree<bf16>(
      "blind", [](auto a, auto b, auto c) { return attention(a, b, c, causal); }, q, k, v);
  agree<bf16>(
      "large", [](auto a, auto b, auto c) { return attention(a, b, c); }, q * 30.0f, k, v, 3e-2);
}

TEST_CASE("what has no kernel is composed: f32, f64, few keys") {
  const four q = numbers(1, 1, 70, 16);
  const auto f = [](auto a) { return attention(a, a, a, causal); };
  const four x = q.to(gpu);
  CHECK(count_kernels(explain(compile(f))(x)).forward == 0);
  const narrow<bf16> few = cast<bf16>(numbers(1, 1, 20, 16));
  const narrow<bf16> y = few.to(gpu);
  CHECK(count_kernels(explain(compile(f))(y)).forward == 0);
  ::setenv("SINTER_ATTENTION", "composed", 1);
  const narrow<bf16> half = cast<bf16>(q);
  const narrow<bf16> z = half.to(gpu);
  CHECK(count_kernels(explain(compile([](narrow<bf16> a) { return attention(a, a, a) * bf16(2.0f); }))(z)).forward ==
        0);
  ::unsetenv("SINTER_ATTENTION");
}

TEST_CASE("a step of GPT-2 in bf16 has one kernel a layer forward, and two backward") {
  constexpr int layers = 2;
  const device_scope on(gpu);
  const auto state =
      models::start(models::gpt2::make_network({.vocabulary = 50, .positions = 64, .width = 32, .heads = 2}, layers));
  const auto text = randint<std::int64_t>(make_key(2), 0, 50, 1, 64),
             next = randint<std::int64_t>(make_key(3), 0, 50, 1, 64);
  const auto step = compile(autocast<bf16>(models::step_of(&models::gpt2::loss)));
  const counts made = count_kernels(explain(step)(state, text, next));
  CHECK(made.forward == layers);
  CHECK(made.backward == 2 * layers);
}
