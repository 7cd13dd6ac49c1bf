// optim::train_step is the loss, its gradient and the optimizer's update as one compiled function.
#include <doctest/doctest.h>

#include <tuple>
#include <utility>
#include <vector>

#include <sinter/sinter.hpp>

#include <sinter/optim.hpp>

using namespace sinter;

namespace {

struct line {
  f32_1 w;
  f32_0 b;
};

f32_0 loss(const line& p, const f32_2& x, const f32_1& y, const key& k) {
  return mean(square(matmul(x, p.w) + p.b - y + 0.01f * normal<float>(k, y.size(0))));
}

/// Sixty steps on a device, the first five beside value_and_grad and update.
void train_on(const device& where) {
  const device_scope scope(where);
  const auto opt = optim::chain(optim::clip_by_global_norm(1), optim::adam({.rate = optim::cosine(0.2, 60)}));
  const auto step = compile(optim::train_step(opt, loss), {.fullgraph = true, .donate = {0, 1}});
  const f32_2 x = normal<float>(make_key(1), 32, 3);
  const f32_1 y = matmul(x, f32_1{1, -2, 0.5f}) + 0.3f;
  line p{f32_1{0.1f, 0.2f, 0.3f}, 0.5f}, q = tree_map([](const auto&a) { return a * 1.f; }, p);
  auto state = opt.init(p), by_hand = opt.init(q);
  f32_0 l;
  for (int i = 0; i < 60; ++i) {
    const key k = fold_in(make_key(2), i);
    std::tie(l, p, state) = step(std::move(p), std::move(state), x, y, k);
    if (i >= 5) continue;
    const auto [known, g] = value_and_grad(loss)(q, x, y, k);
    std::tie(q, by_hand) = opt.update(q, g, by_hand);
    CHECK(l.item() == doctest::Approx(known.item()).epsilon(1e-5));
    for (int j = 0; j < 3; ++j) CHECK(p.w[j].item() == doctest::Approx(q.w[j].item()).epsilon(1e-5));
    CHECK(p.b.item() == doctest::Approx(q.b.item()).epsilon(1e-5));
  }
  CHECK(step.specialisations() == 1);
  CHECK(l.item() < 0.01f);
}

}  // namespace

TEST_CASE("train_step is value_and_grad and an update") { train_on(device::cpu()); }
TEST_CASE("train_step on a GPU") { train_on(device::cuda(0)); }

TEST_CASE("train_step passes on what a loss returns beside its value") {
  const optim::sgd opt({.rate = 0.25});
  const auto loss = [](const line& p, const f32_1& x) {
    const f32_1 y = p.w * x + p.b;
    return std::pair{sum(y * y), y};
  };
  const auto step = compile(optim::train_step(opt, loss, has_aux));
  const line p{f32_1{1, 2}, 1.f};
  const auto [both, q, state] = step(p, opt.init(p), f32_1{3, -1});
  CHECK(both.first.item() == 17);
  CHECK(both.second.to_vector() == std::vector<float>{4, -1});
  CHECK(q.w.to_vector() == std::vector<float>{-5, 1.5f});
  CHECK(q.b.item() == -0.5f);
}

TEST_CASE("sums of micro-batches by add and finish give the steps of update, in the sums' own memory") {
  const optim::accumulate opt(3, optim::adam({.rate = 0.1}));
  const auto gradient = [](int i) { return line{normal<float>(make_key(10 + i), 3), normal<float>(make_key(20 + i))}; };
  const auto add = compile([&](const line& sum, const line& g) { return opt.add(sum, g); }, {.donate = {0}});
  const auto finish =
      compile([&](const line& p, const line& g, const auto& s) { return opt.finish(p, g, s); }, {.donate = {0, 2}});
  line p{f32_1{1, 2, 3}, 4.f}, q{f32_1{1, 2, 3}, 4.f};
  auto state = opt.init(p), known = opt.init(q);
  for (int i = 0; i < 9; ++i) {
    std::tie(q, known) = opt.update(q, gradient(i), known);
    if (i % 3 < 2) {
      const float* const place = state.sum.w.data();
      state.sum = add(std::move(state.sum), gradient(i));
      if (i % 3 == 1) CHECK(state.sum.w.data() == place);
    } else {
      std::tie(p, state) = finish(std::move(p), gradient(i), std::move(state));
    }
    for (int j = 0; j < 3; ++j) {
      CHECK(p.w[j].item() == doctest::Approx(q.w[j].item()).epsilon(1e-6));
      CHECK(state.sum.w[j].item() == doctest::Approx(known.sum.w[j].item()).epsilon(1e-6));
    }
  }
  CHECK(state.count.item() == 0);
  CHECK(state.inner.step.item() == 3);
}
