// optim::master<bf16>: roundings have the right expectation and neighbours; steps are those of f32 up to them; states are bf16.
#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <tuple>
#include <type_traits>
#include <vector>

#include <sinter/sinter.hpp>

#include <sinter/io.hpp>
#include <sinter/nn.hpp>
#include <sinter/optim.hpp>

#include "../scratch_folder.hpp"

using namespace sinter;

namespace {

template <class T>
using net = nn::mlp<T, nn::gelu>;

/// n roundings of x, in f32.
std::vector<float> roundings(float x, std::int64_t n, std::uint64_t seed) {
  const f32_1 all = full<float>(x, n);
  const auto words = philox(make_key(seed).state, arange<std::uint64_t>(std::uint64_t(n)));
  const tensor<std::uint32_t, 1> random = cast<std::uint32_t>(bit_and(words, 0xffff));
  return cast<float>(optim::detail::randomly_rounded(all, random, location::current())).eval().to_vector();
}

float next_bf16(float x, bool up) {
  const float nearest = static_cast<float>(bf16(x));
  const auto bits = std::bit_cast<std::uint32_t>(x) & 0xffff0000u;
  const float towards_zero = std::bit_cast<float>(bits), away = std::bit_cast<float>(bits + 0x10000u);
  if (nearest == x) return x;
  return (x > 0) == up ? away : towards_zero;
}

}  // namespace

TEST_CASE("a random rounding gives one of the two neighbours, and x on average") {
  constexpr std::int64_t n = 1 << 16;
  std::uint64_t seed = 1;
  for (const float x : {1.0031f, -1.0031f, 3.14159f, -2.71828e-20f, 6.5e37f, 1e-39f, -1e-45f, 0.999999f}) {
    INFO(x);
    const float low = next_bf16(x, false), high = next_bf16(x, true);
    REQUIRE(low < x);
    REQUIRE(x < high);
    double sum = 0;
    for (const float y : roundings(x, n, seed++)) {
      CHECK_MESSAGE((y == low || y == high), y);
      sum += y;
    }
    const double p = (double(x) - low) / (double(high) - low), share = (sum / n - low) / (double(high) - low);
    CHECK(std::abs(share - p) < 5 * std::sqrt(p * (1 - p) / n) + 1.0 / 65536);
  }
}

TEST_CASE("what bf16 represents stays, and so do infinities and NaN") {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float x : {0.f, -0.f, 1.f, -1.5f, 0x1p-133f, 3.3895314e38f, inf, -inf})
    for (const float y : roundings(x, 64, 7)) CHECK(std::bit_cast<std::uint32_t>(y) == std::bit_cast<std::uint32_t>(x));
  for (const float x : {NAN, std::bit_cast<float>(0x7fffffffu), std::bit_cast<float>(0xffffffffu)})
    for (const float y : roundings(x, 64, 8)) CHECK(std::isnan(y));
}

namespace {

using batch = f32_2;

template <class T>
f32_0 loss(const net<T>& p, const batch& x) {
  const net<float> wide = cast_tree<float>(p);
  return mean(square(wide(x) - sum(x, axis<1>, keepdims)));
}

batch some() { return normal<float>(make_key(2), 24, 3); }
net<float> first() { return net<float>::init(make_key(1), {3, 9, 5, 1}); }

/// Steps of an optimizer in f32, and of its master<bf16>: the first losses are near, and both fall.
template <class O>
void train(const O& of) {
  const auto opt = optim::master<bf16>(of, make_key(5));
  net<float> wide = first();
  auto wide_state = of.init(wide);
  auto state = opt.init(wide);
  auto p = opt.parameters(state);
  static_assert(std::is_same_v<decltype(p), net<bf16>>);
  const auto step = compile(optim::train_step(opt, loss<bf16>), {.donate = {0, 1}});
  const auto wide_step = compile(optim::train_step(of, loss<float>), {.donate = {0, 1}});
  f32_0 l, w;
  float begin = 0;
  for (int i = 0; i < 60; ++i) {
    std::tie(l, p, state) = step(std::move(p), std::move(state), some());
    std::tie(w, wide, wide_state) = wide_step(std::move(wide), std::move(wide_state), some());
    if (i == 0) begin = l.item();
    if (i < 5) CHECK(l.item() == doctest::Approx(w.item()).epsilon(0.05));
  }
  CHECK(step.specialisations() == 1);
  CHECK(l.item() < 0.7f * begin);
  CHECK(w.item() < 0.7f * begin);
  // The parameters are the weights, rounded to the nearest.
  const auto want = opt.parameters(state);
  CHECK(p.layers[0].weight.to_vector() == want.layers[0].weight.to_vector());
  CHECK(p.layers[2].bias.value().to_vector() == want.layers[2].bias.value().to_vector());
}

}  // namespace

TEST_CASE("steps follow those of f32: SGD, Adam, AdamW") {
  train(optim::sgd({.rate = 0.02}));
  train(optim::sgd({.rate = 0.01, .momentum = 0.8, .nesterov = true}));
  train(optim::adam({.rate = 0.01}));
  train(optim::chain(optim::clip_by_global_norm(1), optim::adamw({.rate = 0.01, .weight_decay = 0.1})));
}

TEST_CASE("steps follow those of f32: Lion, RMSProp, Adagrad, Muon") {
  train(optim::lion({.rate = 0.003}));
  train(optim::rmsprop({.rate = 0.003, .momentum = 0.5}));
  train(optim::adagrad({.rate = 0.05}));
  train(optim::muon({.rate = 0.01, .weight_decay = 0.01}));
}

TEST_CASE("an element takes 10 bytes: the parameter, the weight and two moments") {
  const auto opt = optim::master<bf16>(optim::adamw(), make_key(1));
  const net<float> p = first();
  std::size_t elements = 0, bytes = 0;
  const auto count = [&](const auto& x) {
    using T = typename std::remove_cvref_t<decltype(x)>::value_type;
    if (x.rank > 0) bytes += static_cast<std::size_t>(x.numel()) * sizeof(T);
  };
  const auto state = opt.init(p);
  tree_map([&](const auto& x) { return elements += static_cast<std::size_t>(x.numel()), x; }, p);
  tree_map([&](const auto& x) { return count(x), x; }, opt.parameters(state));
  tree_map([&](const auto& x) { return count(x), x; }, state);
  CHECK(bytes == 10 * elements);
}

TEST_CASE("a second moment decays, although it changes by less than half of its last place") {
  // To the nearest, 0.999 of a bf16 is that bf16.
  const auto opt = optim::master<bf16>(optim::adam({.rate = 0}), make_key(9));
  const net<float> p = first();
  auto state = opt.init(p);
  auto q = opt.parameters(state);
  const auto one = tree_map([](const auto&x) { return full_like(x, 1); }, q), none = tree_zeros_like(q);
  std::tie(q, state) = opt.update(q, one, state);
  double before = 0, after = 0;
  for (const bf16 v : state.inner.second.layers[0].weight.to_vector()) before += double(float(v));
  const auto step = compile([&](const auto& q, const auto& s) { return opt.update(q, none, s); });
  for (int i = 0; i < 200; ++i) std::tie(q, state) = step(q, state);
  for (const bf16 v : state.inner.second.layers[0].weight.to_vector()) after += double(float(v));
  CHECK(after / before == doctest::Approx(std::pow(0.999, 200)).epsilon(0.03));
}

TEST_CASE("a run that is saved and resumed is the same run") {
  const scratch_folder here;
  const auto opt = optim::master<bf16>(optim::adamw({.rate = 0.01}), make_key(3));
  const auto step = compile(optim::train_step(opt, loss<bf16>));
  auto state = opt.init(first());
  auto p = opt.parameters(state);
  f32_0 l;
  for (int i = 0; i < 3; ++i) std::tie(l, p, state) = step(p, state, some());
  const std::string file = here.path + "/run.safetensors";
  io::save(file, std::pair{p, state});
  auto again = std::pair{opt.parameters(opt.init(first())), opt.init(first())};
  io::load(file, again);
  for (int i = 0; i < 3; ++i) {
    std::tie(l, p, state) = step(p, state, some());
    f32_0 m;
    std::tie(m, again.first, again.second) = step(again.first, again.second, some());
    CHECK(l.item() == m.item());
  }
  CHECK(again.second.inner.second.layers[1].weight.to_vector() == state.inner.second.layers[1].weight.to_vector());
  CHECK(again.second.key.item() == state.key.item());
}

TEST_CASE("no kernel of a step only casts, on the host and on a GPU") {
  for (const device& where : {device::cpu(), device::cuda(0)}) {
    const device_scope scope(where);
    const auto opt = optim::master<bf16>(optim::adamw({.rate = 0.01}), make_key(3));
    const auto step = compile(optim::train_step(opt, autocast<bf16>(loss<bf16>)), {.donate = {0, 1}});
    auto state = opt.init(to(first(), where));
    auto p = opt.parameters(state);
    f32_0 l;
    const batch x = some().to(where);
    for (int i = 0; i < 2; ++i) std::tie(l, p, state) = step(std::move(p), std::move(state), x);
    for (const auto& k : step.report().steps)
      CHECK_MESSAGE((k.name != "cast" && k.name.find("| cast |") == k.name.npos), k.name);
    CHECK(std::isfinite(l.item()));
  }
}
