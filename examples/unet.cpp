// unet.cpp: a U-Net (Ronneberger et al., 2015) finds the disc in a noisy picture; the known answer is the disc that was drawn.
#include <sinter/nn.hpp>
#include <sinter/optim.hpp>

#include "support/program.hpp"
using namespace sinter;

using images = f32_4;

/// Two convolutions of 3 by 3, each with a norm.
auto stage(const key& k, std::int64_t in, std::int64_t out) {
  const auto conv = [=](std::int64_t in) {
    return [=](const key& k) { return nn::conv2d<float>::init(k, in, out, 3, {.padding = 1, .bias = false}); };
  };
  const auto norm = nn::batch_norm<float>::init(out);
  return nn::make_sequential(k, conv(in), norm, nn::relu{}, conv(out), norm, nn::relu{});
}

struct unet {
  decltype(stage(key(), 1, 1)) d1, d2, bottom, u2, u1;
  nn::conv2d<float> last;

  static unet init(const key& key) {
    const auto [a, b, c, d, e, f] = split<6>(key);
    return {stage(a, 1, 8),   stage(b, 8, 16), stage(c, 16, 32),
            stage(d, 48, 16), stage(e, 24, 8), nn::conv2d<float>::init(f, 8, 1, 1)};
  }
  images operator()(const images& x, const nn::pass<float>& pass) const {
    const auto larger = [](const images& h) { return interpolate(h, {.scale = {2}, .mode = resize::linear}); };
    const images a = d1(x, pass), b = d2(max_pool2d(a, 2), pass), c = bottom(max_pool2d(b, 2), pass);
    return last(u1(concat<1>(a, larger(u2(concat<1>(b, larger(c)), pass))), pass));
  }
};

/// Pictures of a disc each in noise, and where the disc is.
std::pair<images, images> draw(const key& k, std::int64_t n) {
  const auto [a, b] = split(k);
  const auto of = [disc = uniform<float>(a, n, 3)](int i) { return reshape(slice<1>(disc, i, i + 1), -1, 1, 1, 1); };
  const auto along = linspace<float>(0, 1, 32);
  const images y = reshape(along, 32, 1) - (of(0) * 0.5f + 0.25f), x = along - (of(1) * 0.5f + 0.25f);
  const images inside = cast<float>(x * x + y * y < square(of(2) * 0.15f + 0.1f));
  return {inside + 0.5f * normal<float>(b, n, 1, 32, 32), inside};
}

int train(const arguments& given) {
  const int steps = given.steps(120);
  const optim::adam opt({.rate = 1e-2});
  const auto loss = [](const unet& p, const nn::running_statistics<float>& s, const key& k) {
    const auto [x, y] = draw(k, 16);
    const nn::pass pass(p, s, nn::training);
    const f32_0 error = nn::binary_cross_entropy(p(x, pass), y, reduce::mean);
    return std::pair{error, pass.state()};
  };
  const auto step = compile(optim::train_step(opt, loss, has_aux), {.donate = {0, 1, 2}});
  unet p = unet::init(make_key(1));
  auto state = opt.init(p);
  std::pair now{f32_0(0), nn::state(p)};
  loss_curve losses;
  data::progress_bar bar(steps);
  for (int i = 0; i < steps; ++i) {
    std::tie(now, p, state) = step(std::move(p), std::move(state), std::move(now.second), fold_in(make_key(2), i));
    losses.add(now.first);
    bar.show(i + 1, words("loss %.4f", losses.last()));
  }
  const auto [x, y] = draw(make_key(3), 64);
  const images found = cast<float>(p(x, {p, now.second, nn::inference}) > 0.f);
  const double both = sum(found * y).item(), either = sum(maximum(found, y)).item();
  std::printf("intersection over union on new pictures  %.4f\n", both / either);
  losses.write(given("svg", "unet.svg"), "unet: loss");
  return verdict(given, both / either);
}

int main(int argc, char** argv) { return run_program(argc, argv, "[--steps N]", train); }
