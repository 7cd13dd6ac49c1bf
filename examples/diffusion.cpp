// diffusion.cpp: a denoising diffusion model (Ho et al., 2020) learns to draw points of eight clusters on a circle.
#include <numbers>

#include <sinter/nn.hpp>
#include <sinter/optim.hpp>

#include "support/plot.hpp"
#include "support/program.hpp"
using namespace sinter;

constexpr std::int64_t times = 100;

/// The noise that each time adds, and the share of the picture that is left then.
std::pair<f32_1, f32_1> schedule() {
  const f32_1 beta = linspace<float>(1e-3, 0.1, times);
  return {beta, cumprod(1.f - beta)};
}

struct denoiser {
  nn::mlp<float, nn::silu> net;

  /// The noise in x at times t.
  f32_2 operator()(const f32_2& x, const f32_2& t) const {
    const f32_2 angle = t * (exp2(arange<float>(8)) / float(times));
    return net(concat<1>(x, sin(angle), cos(angle)));
  }
};

f32_2 centres() {
  const f32_1 angle = arange<float>(8) * (std::numbers::pi_v<float> / 4);
  return 2.f * stack<1>(cos(angle), sin(angle));
}
f32_2 draw(const key& k, std::int64_t n) {
  const auto [a, b] = split(k);
  return take(centres(), randint<std::int64_t>(a, 0, 8, n)) + 0.2f * normal<float>(b, n, 2);
}

f32_0 loss(const denoiser& p, const key& k) {
  const auto [a, b, c] = split<3>(k);
  const i64_2 t = randint<std::int64_t>(a, 0, times, 256, 1);
  const f32_2 noise = normal<float>(b, 256, 2), kept = take(schedule().second, t);
  return mean(square(noise - p(sqrt(kept) * draw(c, 256) + sqrt(1.f - kept) * noise, cast<float>(t))));
}

f32_2 sample(const denoiser& p, const key& k, std::int64_t n) {
  const auto [beta, kept] = schedule();
  const auto earlier = [&, beta = beta, kept = kept](const i64_0& i, const f32_2& x) -> f32_2 {
    const i64_0 t = times - 1 - i;
    const f32_0 b = take(beta, t);
    const f32_2 noise = p(x, broadcast_to(cast<float>(t), n, 1)), more = normal<float>(fold_in(k, i), n, 2);
    return (x - b * rsqrt(1.f - take(kept, t)) * noise) * rsqrt(1.f - b) + where(t > 0, sqrt(b), 0.f) * more;
  };
  return fori_loop(0, times, earlier, normal<float>(fold_in(k, times), n, 2));
}

bool train(const arguments& given) {
  const int steps = given.steps(4000);
  const optim::adam opt({.rate = optim::cosine(1e-2, steps)});
  const auto step = compile(optim::train_step(opt, loss), {.donate = {0, 1}});
  denoiser p{nn::mlp<float, nn::silu>::init(make_key(1), {18, 128, 128, 128, 2})};
  auto state = opt.init(p);
  data::progress_bar bar(steps);
  for (int i = 0; i < steps; ++i) {
    f32_0 l;
    std::tie(l, p, state) = step(std::move(p), std::move(state), fold_in(make_key(2), i));
    if ((i + 1) % 100 == 0) bar.show(i + 1, words("loss %.4f", l.item()));
  }
  const f32_2 made = compile(sample)(p, make_key(3), 1024);
  const auto column = [&](int i) { return slice<1>(made, i, i + 1).to_vector(); };
  plot("Points that were drawn", "x").points("y", column(0), column(1)).write(given("svg", "diffusion.svg"));
  const f32_2 far = norm(expand_dims<1>(made) - centres(), axis<2>);
  const i64_1 each = bincount(argmin(far, axis<1>), {.size = 8});
  const float near = mean(cast<float>(min(far, axis<1>) < 0.6f)).item();
  bool right = agrees("share within three deviations", near, 0.989, 0.1);
  right &= agrees("share of the rarest cluster", static_cast<double>(min(each).item()) / 1024, 0.125, 0.05);
  return right;
}

int main(int argc, char** argv) { return run_program(argc, argv, "[--steps N]", train); }
